"""Two real Ray nodes on this machine: parties where they were pinned, a submitted job, what does not fit."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .test_command import wait_for_address

pytestmark = [pytest.mark.ray, pytest.mark.timeout(500)]

RAY = str(Path(sys.executable).parent / "ray")
SMALL = ("rounds=2", "dataset.batch_size=256", "model._target_=own.Net")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Nodes:
    """A cluster of two nodes with a CPU each: zone a and its head, zone b and two robots."""

    address: str
    dashboard: str
    environment: dict[str, str]

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=cwd, env=self.environment, capture_output=True, text=True, timeout=400, check=False
        )


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 40, "RAY_USAGE_STATS_ENABLED": "0",
                   "COLUMNS": "200"}  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        port = free_port()
        started: list[subprocess.Popen[str]] = []

        def start(*arguments: str) -> subprocess.Popen[str]:
            command = [RAY, "start", "--num-cpus=1", "--object-store-memory=80000000", "--block",
                       f"--dashboard-agent-listen-port={free_port()}", *arguments]  # fmt: skip
            with (Path(folder) / f"out{len(started)}").open("w") as out:
                started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out, text=True))
            return started[-1]

        try:
            head = start("--head", "--port=0", "--labels=zone=a", f"--temp-dir={folder}", f"--dashboard-port={port}")
            address = wait_for_address(head, Path(folder))
            start(f"--address={address}", "--labels=zone=b", '--resources={"robot": 2}')
            cluster = Nodes(address, f"http://127.0.0.1:{port}", environment)
            wait_for_two(cluster)
            yield cluster
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(timeout=60)


def check(nodes: Nodes, *overrides: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flexray.cluster", "check", f"cluster.address={nodes.address}", *overrides]
    return nodes.run(*command, cwd=Path.cwd())


def wait_for_two(nodes: Nodes) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if "zone=b" in check(nodes).stdout:
            return
    raise TimeoutError("no second node")


def test_a_submitted_job_runs_where_it_was_pinned_and_gives_the_digests_of_one_process(
    nodes: Nodes, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text("from torch import nn\n\n\nclass Net(nn.Linear):\n    pass\n")
    pins = ("parties.1.labels.zone=b", "parties.2.labels.zone=a", "parties.3.resources.robot=2",
            "parties.server.labels.zone=b", "cluster.labels_driver.zone=a")  # fmt: skip
    fits = check(nodes, *pins)
    assert fits.returncode == 0, fits.stderr
    assert "fits: 6 processes on 2 of 2 nodes" in fits.stdout
    submit = (RAY, "job", "submit", f"--address={nodes.dashboard}", "--working-dir", ".", "--", sys.executable)
    done = nodes.run(
        *submit, "-m", "flexray.run", "cluster=ray", *SMALL, *pins, f"hydra.run.dir={tmp_path}/out", cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    log = (tmp_path / "out" / "run.log").read_text()
    placed = re.search(r"placed on (.*)", log)
    assert placed is not None
    hosts = dict(part.split(": ") for part in placed[1].split("; "))
    zones = {zone: name for name, zone in re.findall(r"│ (\S+ \(\w+\)) .*zone=(\w)", fits.stdout)}
    assert {"flexray-digits-driver", "flexray-digits-party-2-upper_right"} <= set(hosts[zones["a"]].split(", "))
    pinned_to_b = {"flexray-digits-party-1-upper_left", "flexray-digits-party-3-lower_left", "flexray-digits-server"}
    assert pinned_to_b <= set(hosts[zones["b"]].split(", "))
    run = (sys.executable, "-m", "flexray.run", "cluster=inline", *SMALL, f"hydra.run.dir={tmp_path}/inline")
    assert nodes.run(*run, cwd=tmp_path).returncode == 0
    digests = [json.loads((tmp_path / d / "summary.json").read_text())["model_digest"] for d in ("out", "inline")]
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["parties.1.labels.zone=c"], "party-1-upper_left asks for zone=c, but no node has that: .* zone=a; .* zone=b"),
        (["cluster.cpus_per_party=2"], r"ask for 8 CPU, but there are 2 CPU in the cluster \(.* has 1 CPU; "),
        (["cluster.strategy=strict_spread"], "the server and 4 party hosts on 6 nodes, but there are 2"),
        (["parties.1.resources.robot=1", "parties.1.labels.zone=a"], "asks for 1 robot, zone=a, but no node has that"),
    ],
)  # fmt: skip
def test_what_cannot_fit_is_said_at_once_with_what_each_node_has(
    overrides: list[str], line: str, nodes: Nodes, tmp_path: Path
) -> None:
    command = (sys.executable, "-m", "flexray.run", "cluster=ray", f"cluster.address={nodes.address}", "rounds=1")
    done = nodes.run(*command, *overrides, cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(line, done.stdout + done.stderr), done.stdout + done.stderr
