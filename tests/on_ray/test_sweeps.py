"""A sweep over real nodes, one of which is lost half-way: it says what it says in one process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest

import flexray
from flexray.run.command import run_command
from helpers.processes import within
from helpers.ray_nodes import Nodes, kill_node, wait_for

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

OWN = "from torch import nn\n\n\nclass Net(nn.Linear):\n    pass\n"
SMALL = ("cluster=inline", "rounds=30", "dataset.batch_size=256", "target=0.3", "model._target_=own.Net")
GRID = ("algo=flex,pbcd,adaptive", "seed=1,2,3,4")
SCRIPT = """
import flexray, own, sys
from pathlib import Path
keys = {"rounds": 30, "dataset": {"batch_size": 256}, "target": 0.3, "model": own.Net, "progress": False}
sweep = flexray.sweep({"algo": ["flex", "pbcd", "adaptive"]}, seeds=4, parallel="ray", folder="there", **keys)
Path("runs.csv").write_text(sweep.runs.to_csv())
"""
COMMAND = ("-m", "flexray.run", "-m", *SMALL, *GRID, "hydra/launcher=ray", "hydra.sweep.dir=there")
Lose = Callable[[Sequence[str], Path], str]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Return the folder of the sweep that ran in one process, and what the command said."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "own.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patch, (folder / "said.txt").open("w") as said:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        patch.setattr(sys, "stdout", said)
        assert run_command(["-m", *SMALL, *GRID, "progress=false", "hydra.sweep.dir=here"]) == 0
    yield folder / "here", (folder / "said.txt").read_text()


@pytest.fixture
def lose(nodes: Nodes) -> Lose:
    """Return a function that runs Python on three nodes, kills all of the third half-way, and returns what was said."""

    def run(words: Sequence[str], folder: Path) -> str:
        (folder / "own.py").write_text(OWN)
        third = nodes.start("--labels=zone=c")
        wait_for(nodes, "zone=c")
        with (folder / "said.txt").open("w") as said:
            command = [sys.executable, *words]
            process = subprocess.Popen(command, cwd=folder, env=nodes.environment, stdout=said, stderr=said)
        half = within(100, lambda: process.poll() is not None or len(list(folder.glob("there/*/summary.json"))) > 4)
        kill_node(third)
        assert process.wait(timeout=100) == 0, (folder / "said.txt").read_text()
        assert half
        return (folder / "said.txt").read_text()

    return run


def assert_same(here: Path, there: Path) -> None:
    for job in range(12):
        for name in ("rounds.csv", "evals.csv", "checkpoints/final/server.safetensors"):
            assert (there / str(job) / name).read_bytes() == (here / str(job) / name).read_bytes()


def table(said: str) -> str:
    return said.partition("time to target (units)")[2]


def test_from_the_command_line(lose: Lose, here: tuple[Path, str], tmp_path: Path) -> None:
    said = lose(COMMAND, tmp_path)
    assert " is gone; job" in said
    assert table(said) == table(here[1])
    assert_same(here[0], tmp_path / "there")


def test_from_python(lose: Lose, here: tuple[Path, str], tmp_path: Path) -> None:
    assert " is gone; job" in lose(("-c", SCRIPT), tmp_path)
    expected = flexray.read(here[0])
    assert isinstance(expected, flexray.Sweep)
    found = pd.read_csv(tmp_path / "runs.csv", index_col="run")
    pd.testing.assert_frame_equal(found, expected.runs.set_axis(range(12)).rename_axis("run"), check_dtype=False)
    assert_same(here[0], tmp_path / "there")
