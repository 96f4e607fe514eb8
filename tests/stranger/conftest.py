"""A run folder of a stranger: made here by an honest run, then changed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from flexray.run.command import run_command
from helpers.strangers import EVIL, SECRET, SMALL, Stranger


@pytest.fixture(scope="session")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a short run."""
    folder = tmp_path_factory.mktemp("honest") / "run"
    one = ("optimizer=adam", "+parties.upper_left.optimizer.name=Adam", "checkpoint.every=1", "checkpoint.keep=1")
    assert run_command([*SMALL, *one, f"hydra.run.dir={folder}"]) == 0
    return folder


@pytest.fixture
def stranger(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Stranger:
    """Return the folder, to be changed, beside a module of the stranger's."""
    here = tmp_path / "here"
    shutil.copytree(honest, here / "run")
    for place in (here, here / "run"):
        (place / "evil.py").write_text(EVIL, encoding="utf-8")
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv(SECRET, "what nobody may know")
    return Stranger(here / "run", here, capfd.readouterr)
