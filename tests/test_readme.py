"""Every command and every class of the README works as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
DEPENDENT = re.compile("predict|replay|resume|report")
SHELL = [text.splitlines() for kind, text in BLOCKS if kind == "bash"]
UNITS = [unit for lines in SHELL for unit in ([lines] if DEPENDENT.search("".join(lines)) else [[x] for x in lines])]
"""Commands that are tested together: a prediction, a replay and the like need the run before them."""
MODULES = [text for kind, text in BLOCKS if kind == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the README's modules in it."""
    home = tmp_path_factory.mktemp("readme")
    for text in MODULES:
        name = re.match(r"# (\w+\.py)\n", text)
        assert name, "a Python block starts with its file name"
        assert text.count("\n") < 30
        (home / name[1]).write_text(text, encoding="utf-8")
    return home


def with_marks(commands: list[str]) -> Any:
    """Mark the commands that start Ray."""
    needs_ray = any("flexray.run " in c and "cluster=inline" not in c and "--help" not in c for c in commands)
    return pytest.param(commands, marks=pytest.mark.ray if needs_ray else [], id=commands[-1])


@pytest.mark.parametrize("commands", [with_marks(unit) for unit in UNITS])
def test_every_command_runs(commands: list[str], folder: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "HYDRA_FULL_ERROR"}
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "python"
        done = subprocess.run(
            [sys.executable, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, timeout=170,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_two_commands_are_those_of_the_makefile() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    assert ("", "make run\nmake test\n") in BLOCKS
    assert re.search(r"^run: ", makefile, flags=re.MULTILINE)
    assert re.search(r"^test: ", makefile, flags=re.MULTILINE)
