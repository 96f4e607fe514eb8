"""A cluster of real Ray nodes on this machine, started with the commands of the guide."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from helpers.processes import wait_for_address
from helpers.typed import Typed

RAY = str(Path(sys.executable).parent / "ray")
GUIDE = (Path(__file__).parents[2] / "docs" / "running.md").read_text(encoding="utf-8")
BLOCK = re.findall(r"^```\n(ray start --head.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)[0]
HEAD, NODE, CHECK, HERE, SUBMIT = (shlex.split(line, comments=True) for line in BLOCK.splitlines())
"""The commands of the guide, which these tests use as they stand there, with more arguments."""


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
    folder: Path
    started: list[subprocess.Popen[bytes]]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a node."""
        return start_node(self.folder, self.environment, self.here([*NODE, *arguments]))

    def here(self, words: Sequence[str]) -> list[str]:
        """Return a command of the guide with this cluster's addresses."""
        own = {"ray": RAY, "python": sys.executable, "--address=HEAD:6379": f"--address={self.address}",
               "--address=http://127.0.0.1:8265": f"--address={self.dashboard}"}  # fmt: skip
        return [own.get(word, word) for word in words]

    def type(self, words: Sequence[str], cwd: Path, said: Path | None = None) -> Typed:
        """Start what follows ``python``."""
        assert words[0] == sys.executable
        return Typed(words[1:], cwd, said=said, environment=self.environment)

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[Any]:
        if command[0] == sys.executable:
            return subprocess.CompletedProcess(command, *self.type(command, cwd).end(400))
        return subprocess.run(
            command, cwd=cwd, env=self.environment, capture_output=True, text=True, timeout=400, check=False
        )


def kill_node(node: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a node, as a machine that loses its power does."""
    family = psutil.Process(node.pid)
    for process in (*family.children(recursive=True), family):
        process.kill()
    node.wait()


def start_node(
    folder: Path, environment: dict[str, str], words: Sequence[str], cpus: int = 1
) -> subprocess.Popen[bytes]:
    command = [*words, "--num-cpus=1", "--object-store-memory=80000000", "--block",
               f"--dashboard-agent-listen-port={free_port()}"]  # fmt: skip
    with (folder / "said.txt").open("a") as said:
        return subprocess.Popen(command, env=environment, stdout=said, stderr=said)


@contextmanager
def two_nodes() -> Iterator[Nodes]:
    """Start a cluster for the block."""
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 40, "RAY_USAGE_STATS_ENABLED": "0",
                   "COLUMNS": "200", "RAY_health_check_initial_delay_ms": "500",
                   "RAY_health_check_period_ms": "500"}  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        port = free_port()
        started: list[subprocess.Popen[bytes]] = []
        try:
            ports = ("--port=0", f"--temp-dir={folder}", f"--dashboard-port={port}")
            started.append(start_node(Path(folder), environment, [RAY, *HEAD[1:], *ports]))
            environment["RAY_ADDRESS"] = address = wait_for_address(started[0], Path(folder))
            cluster = Nodes(address, f"http://127.0.0.1:{port}", environment, Path(folder), started)
            started.append(cluster.start('--resources={"robot": 2}'))
            wait_for(cluster, "zone=b")
            yield cluster
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(timeout=60)


def check(nodes: Nodes, *overrides: str) -> subprocess.CompletedProcess[str]:
    return nodes.run(*nodes.here(CHECK), *overrides, cwd=Path.cwd())


def wait_for(nodes: Nodes, label: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if label in check(nodes).stdout:
            return
    raise TimeoutError(f"no node with {label}")
