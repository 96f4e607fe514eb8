"""Real Ray nodes on this machine: parties where they were pinned, a submitted job, what does not fit, a lost node."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flexray.run.command import run_command
from helpers.processes import descendants, within
from helpers.ray_nodes import HERE, SUBMIT, Nodes, check, kill_node, wait_for

pytestmark = [pytest.mark.ray, pytest.mark.timeout(500)]

LONG = ("rounds=300", "epochs=null", "progress=false", "eval_every=100",
       "dataset.batch_size=128", "checkpoint.every=10", "checkpoint.recover_every=10")  # fmt: skip
PLACED = re.compile(r"placed on (.*)")
Lose = Callable[..., tuple[int | None, str]]
SMALL = ("rounds=2", "dataset.batch_size=256", "model._target_=own.Net")


def test_a_submitted_job_runs_where_it_was_pinned_and_gives_the_digests_of_one_process(
    nodes: Nodes, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text("from torch import nn\n\n\nclass Net(nn.Linear):\n    pass\n")
    pins = ("parties.1.labels.zone=b", "parties.2.labels.zone=a", "parties.3.resources.robot=2",
            "parties.server.labels.zone=b", "cluster.labels_driver.zone=a")  # fmt: skip
    fits = check(nodes, *pins)
    assert fits.returncode == 0, fits.stderr
    assert "fits: 6 processes on 2 of 2 nodes" in fits.stdout
    submit = [word.replace("/data/runs/first", f"{tmp_path}/out") for word in nodes.here(SUBMIT)]
    done = nodes.run(*submit, *SMALL, *pins, cwd=tmp_path)
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
    assert left_in(nodes) == "nothing"


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
    done = nodes.run(*nodes.here(HERE), "rounds=1", *overrides, cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(line, done.stdout + done.stderr), done.stdout + done.stderr


LEFT = """
import ray, sys, time
from ray._private.state import actors
from ray.util import placement_group_table
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
end = time.monotonic() + 10
while True:
    left = [a["Name"] for a in actors().values() if a["State"] != "DEAD"]
    left += [g["name"] + "group" for g in placement_group_table().values() if g["state"] != "REMOVED"]
    if not left or time.monotonic() > end:
        break
print(left or "nothing")
"""


def left_in(nodes: Nodes) -> str:
    """Return which actors and placement groups are still there after ten seconds."""
    return nodes.run(sys.executable, "-c", LEFT, nodes.address, cwd=nodes.folder).stdout.strip()


@pytest.mark.parametrize("ends", ["error", "twice", "kill"])
def test_an_ended_command_leaves_nothing_in_a_cluster_of_others(ends: str, nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Linear):\n    def forward(self, x):\n        raise KeyError('lost')\n"
    )
    said, saved = tmp_path / "said.txt", tmp_path / "out" / "checkpoints"
    command = [*nodes.here(HERE), *LONG, "rounds=100000", "hydra.run.dir=out"]
    if ends == "error":
        command.append("model._target_=own.Net")
    process = nodes.type(command, tmp_path, said)
    assert within(60, lambda: process.poll() is not None or list(saved.glob("*.json")))
    if ends == "kill":
        process.send_signal(signal.SIGKILL)
    if ends == "twice":  # the driver answers no more, or the run might end before it is asked once more
        family = {pid: args for node in nodes.started for pid, args in descendants(node.pid).items()}
        os.kill(next(pid for pid, args in family.items() if "DriverActor" in args), signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        assert within(30, lambda: "once more ends at once" in said.read_text())
        process.send_signal(signal.SIGINT)
    status, *_ = process.end(60)
    assert status == {"error": 1, "twice": 130, "kill": -signal.SIGKILL}[ends], said.read_text()
    assert left_in(nodes) == "nothing"


@pytest.fixture
def lose(nodes: Nodes, tmp_path: Path) -> Iterator[Lose]:
    """Return a function that runs a command on three nodes and kills all of the third; it returns status and log."""
    third = nodes.start("--labels=zone=c", '--resources={"robot": 2}')
    wait_for(nodes, "zone=c")

    def run(*overrides: str) -> tuple[int | None, str]:
        command = [*nodes.here(HERE), *LONG, "hydra.run.dir=out", *overrides]
        process = nodes.type(command, tmp_path, tmp_path / "said.txt")
        saved = tmp_path / "out" / "checkpoints"
        assert within(60, lambda: process.poll() is not None or list(saved.glob("*.json")))
        kill_node(third)
        status, *_ = process.end(100)
        return status, (tmp_path / "out" / "run.log").read_text()

    yield run
    if third.poll() is None:
        kill_node(third)


def assert_equal(folder: Path) -> dict[str, Any]:
    """Check that a run has the numbers of an undisturbed one in one process; return its summary."""
    assert run_command([*LONG, "cluster=inline", f"hydra.run.dir={folder / 'inline'}"]) == 0
    found, expected = (json.loads((folder / d / "summary.json").read_text()) for d in ("out", "inline"))
    assert found["model_digest"] == expected["model_digest"]
    assert (folder / "out" / "rounds.csv").read_bytes() == (folder / "inline" / "rounds.csv").read_bytes()
    return dict(found)


def test_a_lost_node_changes_no_number(lose: Lose, nodes: Nodes, tmp_path: Path) -> None:
    status, log = lose("parties.2.resources.robot=1", "parties.3.resources.robot=1", "cluster.strategy=spread")
    assert status == 0, log
    before, after = ({part.split(": ")[0]: part for part in placed.split("; ")} for placed in PLACED.findall(log))
    assert len(before) == 3
    assert after.keys() < before.keys()  # one or both of those that are left: what spreads does so as far as it can
    assert any("-party-" in before[node] for node in before.keys() - after.keys())
    assert len(assert_equal(tmp_path)["failures"]) == 1


def test_what_a_lost_node_alone_had_ends_the_run_with_what_there_is(lose: Lose, nodes: Nodes, tmp_path: Path) -> None:
    status, log = lose("parties.2.resources.robot=2", "parties.3.resources.robot=2")
    assert status == 1, log
    assert re.search(r"given up: .*asks? for 4 robot, but there are 2 robot.*; the run ends after round \d+0\n", log)
    assert "failed; go on with: python -m flexray.run resume=" in log
    assert run_command([f"resume={tmp_path / 'out'}", "cluster=inline"]) == 0
    assert_equal(tmp_path)
