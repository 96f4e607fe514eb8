"""Every command and every class of the README and of the guides works as it stands there."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from helpers.guides import blocks, file_of
from helpers.typed import typed

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
BLOCKS = [found for text in TEXTS.values() for found in blocks(text)]
DEPENDENT = re.compile(r"predict|replay|resume|report|calibrate|^python my_")
SHELL = [text.splitlines() for kind, text in BLOCKS if kind == "bash"]
UNITS = [unit for lines in SHELL for unit in ([lines] if DEPENDENT.search("".join(lines)) else [[x] for x in lines])]
"""Commands that are tested together: a prediction, a replay and the like need what was done before them."""
FEW = ("dataset.batch_size=20", "rounds=2")
SHORTER = {
    "+experiment=digits_compared": ("max_time=240", "seed=1"),
    "dataset=modelnet40": (*FEW, "dataset.synthetic_train=40", "dataset.synthetic_test=40", "dataset.views=4"),
    "dataset=imagenet100": (*FEW, "dataset.synthetic_train=100", "dataset.synthetic_test=100"),
    "dataset=mosei": (*FEW, "dataset.standin.train=40", "dataset.standin.test=20"),
    "rounds=20": ("rounds=4",),
    "rounds=40": ("rounds=4",),
    "rounds=60": ("rounds=4",),
    "epochs=5": ("rounds=4",),
    "flexray.report": ("--formats", "svg", "--axes", "time"),
}
"""What is added to a command that would compute for long."""
MODULES = [text for kind, text in BLOCKS if kind == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the modules of all pages in it, the experiments of the source tree, and a mesh."""
    home = tmp_path_factory.mktemp("readme")
    for text in MODULES:
        file = home / file_of(text)
        assert text.count("\n") < 30
        assert not file.exists()
        file.write_text(text, encoding="utf-8")
    (home / "experiments").symlink_to(ROOT / "experiments")
    mesh = home / "ModelNet40" / "chair" / "train" / "chair_0001.off"
    mesh.parent.mkdir(parents=True)
    mesh.write_text("OFF\n4 4 0\n0 0 0\n3 0 0\n0 2 0\n0 0 1\n3 0 2 1\n3 0 1 3\n3 1 2 3\n3 2 0 3\n", encoding="ascii")
    return home


def with_marks(commands: list[str]) -> Any:
    """Mark the commands that start Ray."""
    needs_ray = any("flexray.run " in c and "cluster=inline" not in c and "--help" not in c for c in commands)
    return pytest.param(commands, marks=pytest.mark.ray if needs_ray else [], id=commands[-1])


@pytest.mark.parametrize("commands", [with_marks(unit) for unit in UNITS])
def test_every_command_runs(commands: list[str], folder: Path) -> None:
    for command in commands:
        python, *words = shlex.split(command)
        assert python == "python"
        more = [extra for word, extras in SHORTER.items() if word in words for extra in extras]
        status, said = typed([*words, *more], folder)
        assert status == 0, said[-4000:]


def test_the_two_commands_are_those_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert ("", "make run\nmake test\n") in BLOCKS
    assert re.search(r"^run: ", makefile, flags=re.MULTILINE)
    assert re.search(r"^test: ", makefile, flags=re.MULTILINE)


def test_every_guide_is_linked_from_the_readme() -> None:
    for page in PAGES[1:]:
        assert f"](docs/{page.name})" in TEXTS[PAGES[0]]


def test_the_loss_of_the_dataset_of_ones_own_falls(folder: Path) -> None:
    command = next(line for lines in SHELL for line in lines if "my_dataset" in line)
    status, said = typed([*shlex.split(command)[1:], "hydra.run.dir=sines"], folder)
    assert status == 0, said[-4000:]
    with (folder / "sines" / "evals.csv").open(newline="") as rows:
        losses = [float(row["train_loss"]) for row in csv.DictReader(rows)]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 2
