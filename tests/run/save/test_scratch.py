"""Temporary folders of processes that may be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from flexray.run.save.scratch import LOCK, scratch_folder

KILLED = """
import os
from flexray.run.save.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "model").mkdir()
    os._exit(0)
"""


def test_what_a_killed_process_left_goes_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", KILLED], env=environment, check=True)
    (tmp_path / "flexray-job-of-others").mkdir()
    (left,) = tmp_path.glob(f"*/{LOCK}")
    with scratch_folder() as folder, scratch_folder() as other:
        assert not left.exists()
        assert folder.exists()
        assert other.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["flexray-job-of-others"]
