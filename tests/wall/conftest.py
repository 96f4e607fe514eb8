"""Small runs in folders of their own, by the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from flexray.run.command import run_command
from helpers.wall_runs import SMALL, RunFolder


@pytest.fixture
def run_folder(bundle: Path, tmp_path: Path) -> RunFolder:
    """Return a function from a name and overrides to the folder of a completed run."""

    def run(name: str, *overrides: str) -> Path:
        folder = tmp_path / name
        assert run_command([*SMALL, f"dataset.path={bundle}", f"hydra.run.dir={folder}", *overrides]) == 0
        return folder

    return run
