"""Where observers were, as checkpoints tell it, looked at before any of them goes back there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flexray.core.conforming import conforms
from flexray.core.errors import RunFolderError
from flexray.run.watch.base import Mark
from flexray.run.watch.folder import TableObserver
from flexray.run.watch.summary import SummaryObserver
from flexray.run.watch.timeline import TimelineObserver

EVALUATION = {"round": int, "epoch": float, "sim_time": float, "metrics": dict[str, float]}
MARKS: dict[str, Any] = {
    TableObserver.__name__: {"rounds": int, "evals": int, "metrics": list[str]},
    TimelineObserver.__name__: {"end": int, "separator": str, "total": int},
    SummaryObserver.__name__: {
        "up": list[int], "down": list[int], "absent": list[int], "reached": (None, EVALUATION),
        "reached_bytes": int, "last_eval": (None, EVALUATION),
    },
}  # fmt: skip
"""What every run has."""
FILES = {("TableObserver", "rounds"): "rounds.csv", ("TableObserver", "evals"): "evals.csv",
         ("TimelineObserver", "end"): "timeline.json"}  # fmt: skip


def check_marks(marks: Mark, folder: Path, parties: int) -> None:
    """Refuse marks that make no sense, or that the files of the run folder do not reach.

    Raises:
        RunFolderError: It names the observer, or the file.
    """
    for name, kind in MARKS.items():
        if not conforms(marks.get(name), kind):
            raise RunFolderError(f"the checkpoint's marks of {name} make no sense: {str(marks.get(name))[:100]}")
    if any(len(marks["SummaryObserver"][key]) != parties for key in ("up", "down", "absent")):
        raise RunFolderError(f"the checkpoint's marks of SummaryObserver: expected numbers of {parties} parties")
    for (name, key), file in FILES.items():
        path, expected = folder / file, marks[name][key]
        found = path.stat().st_size if path.exists() else 0
        if found < expected:
            raise RunFolderError(f"{path}: it has {found} bytes, but the checkpoint was made at {expected}")
