"""No run imports SymPy, which takes up to a second of its first step (and of the real seconds that a run counts)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUN = """
import sys, flexray
for words in {words}:
    flexray.simulate(*words, cluster="inline", rounds=2, eval_every=1, progress=False)
    found = {{"sympy", "torch._dynamo"}} & set(sys.modules)
    assert not found, (words, found)
"""
WORDS = [
    ("algo=flex",), ("algo=vafl",), ("algo=fedbcd",), ("labels_at=server",), ("labels_at=lower_left",),
    ("algo=vafl", "labels_at=lower_left"), ("model=cnn",), ("learn=false",),
]  # fmt: skip


def test_no_run_imports_sympy(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN.format(words=WORDS)]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
