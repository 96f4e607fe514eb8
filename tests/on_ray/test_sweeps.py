"""Sweeps over real nodes, one of which is lost half-way: they say what they say in one process."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import flexray
from flexray.run.command import run_command
from helpers.processes import descendants, within
from helpers.ray_nodes import Nodes, kill_node, wait_for

pytestmark = [pytest.mark.ray, pytest.mark.timeout(500)]

OWN = "from torch import nn\n\n\nclass Net(nn.Linear):\n    pass\n"
SMALL = ("cluster=inline", "rounds=30", "dataset.batch_size=256", "target=0.3", "model._target_=swept.Net")
GRID = ("algo=flex,pbcd,adaptive", "seed=1,2,3,4")
SCRIPT = """
import flexray, swept, sys
from pathlib import Path
keys = {"rounds": 30, "dataset": {"batch_size": 256}, "target": 0.3, "model": swept.Net, "progress": False}
sweep = flexray.sweep({"algo": ["flex", "pbcd", "adaptive"]}, seeds=4, parallel="ray", folder="there", **keys)
Path("runs.csv").write_text(sweep.runs.to_csv())
"""
COMMAND = ("-m", "flexray.run", "-m", *SMALL, *GRID, "hydra/launcher=ray", "hydra.sweep.dir=there")


def begin(nodes: Nodes, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start Python in a new folder with the model's module in it."""
    folder.mkdir()
    (folder / "swept.py").write_text(OWN)
    with (folder / "said.txt").open("w") as said:
        return subprocess.Popen([sys.executable, *words], cwd=folder, env=nodes.environment, stdout=said, stderr=said)


def table(said: str) -> str:
    return said.partition("time to target (units)")[2]


def test_of_the_command_and_of_python_at_once_while_a_node_is_lost(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    third = nodes.start("--labels=zone=c")
    wait_for(nodes, "zone=c")
    folders = [tmp_path / "command", tmp_path / "python"]
    running = [begin(nodes, folder, *words) for folder, words in zip(folders, (COMMAND, ("-c", SCRIPT)), strict=True)]
    assert within(200, lambda: all(len(list(folder.glob("there/*/summary.json"))) > 3 for folder in folders))
    assert within(100, lambda: any(name.startswith("ray::run_") for name in descendants(third.pid).values()))
    kill_node(third)
    statuses = [process.wait(timeout=200) for process in running]
    said = [(folder / "said.txt").read_text() for folder in folders]
    assert statuses == [0, 0], said
    assert any(" is gone; job" in text for text in said), said
    (tmp_path / "swept.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    assert run_command(["-m", *SMALL, *GRID, "progress=false", "hydra.sweep.dir=here"]) == 0
    assert table(said[0]) == table(capsys.readouterr().out)
    expected = flexray.read(tmp_path / "here")
    assert isinstance(expected, flexray.Sweep)
    found = pd.read_csv(folders[1] / "runs.csv", index_col="run")
    assert found.pop("error").isna().all()
    pd.testing.assert_frame_equal(found, expected.runs.drop(columns="error").set_axis(found.index))
    for job, name in itertools.product(map(str, range(12)), ("rounds.csv", "checkpoints/final/server.safetensors")):
        files = [(folder / job / name).read_bytes() for folder in (tmp_path / "here", *(f / "there" for f in folders))]
        assert files[0] == files[1] == files[2]
