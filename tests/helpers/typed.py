"""Commands as one types them, each in a process of its own that has the great libraries loaded already."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch", "pandas", "hydra.main", "matplotlib.pyplot", "plotly.graph_objects"])


def typed(words: Sequence[str], folder: Path, timeout_s: float = 170.0) -> tuple[int | None, str]:
    """Run ``python WORDS`` in a folder and return its exit status, None if it took too long, and what it printed."""
    output = folder / f"output-{os.getpid()}.txt"
    process = FORKS.Process(target=_run, args=(list(words), str(folder), str(output)))
    process.start()
    process.join(timeout_s)
    if process.exitcode is None:
        process.kill()
    return process.exitcode, output.read_text(encoding="utf-8", errors="replace")


def _run(words: list[str], folder: str, output: str) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ.pop("HYDRA_FULL_ERROR", None)
    os.chdir(folder)
    tests = str(Path(__file__).parents[1])
    sys.path[:] = [path for path in sys.path if path != tests]
    if words[0] == "-m":
        sys.path.insert(0, folder)
        sys.argv = ["-m", *words[2:]]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(words[0]).parent))
        sys.argv = list(words)
        runpy.run_path(words[0], run_name="__main__")
