"""A sweep over real nodes, one of which is lost: it says what it says in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flexray.run.command import run_command
from helpers.processes import within
from helpers.ray_nodes import Nodes, kill_node, wait_for

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

GRID = ("algo=flex,pbcd,adaptive", "seed=1,2,3,4")
SMALL = ("cluster=inline", "rounds=60", "dataset.batch_size=128", "target=0.5", "model._target_=own.Net")


def table(said: str) -> str:
    return said.partition("time to target (units)")[2]


def test_from_the_command_line(
    nodes: Nodes, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text("from torch import nn\n\n\nclass Net(nn.Linear):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    third = nodes.start("--labels=zone=c")
    wait_for(nodes, "zone=c")
    command = [sys.executable, "-m", "flexray.run", "-m", *SMALL, *GRID, "hydra/launcher=ray", "hydra.sweep.dir=there"]
    said, there = tmp_path / "said.txt", tmp_path / "there"
    with said.open("w") as file:
        process = subprocess.Popen(command, env=nodes.environment, stdout=file, stderr=file)
    assert within(100, lambda: process.poll() is not None or len(list(there.glob("*/summary.json"))) > 2)
    kill_node(third)
    assert process.wait(timeout=100) == 0, said.read_text()
    assert " is gone; job" in said.read_text()
    assert run_command(["-m", *SMALL, *GRID, "hydra.sweep.dir=here"]) == 0
    assert table(said.read_text()) == table(capsys.readouterr().out)
    for job in range(12):
        a, b = (tmp_path / place / str(job) / "rounds.csv" for place in ("here", "there"))
        assert a.read_bytes() == b.read_bytes()
