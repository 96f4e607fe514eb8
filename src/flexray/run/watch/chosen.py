"""The observers of a run, as its configuration says, and a check of their state in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexray.config.job import Job
from flexray.core.conforming import conforms
from flexray.core.errors import RunFolderError
from flexray.core.runfolder import EVALS_FILE, ROUNDS_FILE, TIMELINE_FILE, flatten
from flexray.run.watch.base import Observer, ObserverState
from flexray.run.watch.constraint import ConstraintObserver
from flexray.run.watch.folder import ModelObserver, TableObserver
from flexray.run.watch.summary import SummaryObserver
from flexray.run.watch.terminal import ProgressObserver
from flexray.run.watch.timeline import TimelineObserver
from flexray.run.watch.totals import CostObserver, SumObserver, TimeoutObserver, WaitObserver
from flexray.run.watch.tracking import TrackingObserver, make_tracker

if TYPE_CHECKING:  # a single run needs nothing of the report, which that imports
    from flexray.run.watch.sweep import SweepProgress

EVALUATION = {"round": int, "epoch": float, "sim_time": float, "metrics": dict[str, float]}
KINDS: dict[str, Any] = {
    TableObserver.__name__: {"rounds": int, "evals": int, "metrics": list[str]},
    TimelineObserver.__name__: {"end": int, "separator": str, "total": int},
    SummaryObserver.__name__: {
        "up": list[int], "down": list[int], "absent": list[int], "reached": (None, EVALUATION),
        "reached_bytes": int, "last_eval": (None, EVALUATION),
    },
}  # fmt: skip
"""Types of the state of those observers that every run has."""
FILES = {("TableObserver", "rounds"): ROUNDS_FILE, ("TableObserver", "evals"): EVALS_FILE,
         ("TimelineObserver", "end"): TIMELINE_FILE}  # fmt: skip


def chosen_trackers(config: Mapping[str, Any], job: Job, folder: Path, base_dir: Path) -> list[Observer]:
    """Return the observer that feeds an experiment tracker, if one was chosen."""
    if config["logger"]["kind"] == "none":
        return []
    params = {"name": run_name(job), **flatten(dict(config))}
    return [TrackingObserver(make_tracker(config["logger"], folder, base_dir, params))]


def run_name(job: Job) -> str:
    """Return the name of a run where many are shown."""
    return f"{job.algo}-{job.dataset}-{job.experiment.shared.seed}"


def usual_observers(
    job: Job, folder: Path, goes_on: bool, quiet: bool, sweep: SweepProgress | None, sums: Sequence[SumObserver]
) -> list[Observer]:
    """Return what writes the run folder, whose files a run may go on with, and, unless ``quiet``, shows progress."""
    x = job.experiment
    observers: list[Observer] = [
        TableObserver(
            folder,
            goes_on,
            waits=x.bounds_turns,
            costs=next((s.until for s in sums if isinstance(s, CostObserver)), None),
            timeouts=x.chooses_timeout,
        ),
        TimelineObserver(folder, job.timeline_rounds, x.time_unit, goes_on),
    ]
    if x.shared.learns:
        observers.append(ModelObserver(folder))
    if job.smoothness:
        optimizers = [spec.optimizer for spec in (*x.parties, x.shared.server)]
        observers.append(ConstraintObserver(job.smoothness, optimizers))
    if job.progress and not quiet:
        bars = sweep.bars if sweep else None
        observers.append(
            ProgressObserver(x.target.metric if x.shared.learns else None, x.limits.max_time, x.time_unit, shared=bars)
        )
    return [*observers, sweep] if sweep else observers


def chosen_sums(job: Job) -> list[SumObserver]:
    """Return what adds up sums that the summaries of some runs have."""
    x = job.experiment
    waits = [WaitObserver(x.names)] if x.bounds_turns else []
    timeouts = [TimeoutObserver()] if x.chooses_timeout else []
    return [*waits, *timeouts, *([CostObserver(x.names, job.costs, x.target)] if job.costs else [])]


def check_state(state: ObserverState, folder: Path, job: Job) -> None:
    """Refuse state of observers that makes no sense, or that goes beyond the files of the run folder.

    Raises:
        RunFolderError: It names the observer, or the file.
    """
    parties, sums = len(job.experiment.parties), {type(observer).__name__: observer for observer in chosen_sums(job)}
    for name, kind in {**KINDS, **{name: observer.KIND for name, observer in sums.items()}}.items():
        if not conforms(state.get(name), kind) or (name in sums and not sums[name].makes_sense(state[name])):
            raise RunFolderError(f"the checkpoint's marks of {name} make no sense: {str(state.get(name))[:100]}")
    if any(len(state["SummaryObserver"][key]) != parties for key in ("up", "down", "absent")):
        raise RunFolderError(f"the checkpoint's marks of SummaryObserver: expected numbers of {parties} parties")
    for (name, key), file in FILES.items():
        path, expected = folder / file, state[name][key]
        found = path.stat().st_size if path.exists() else 0
        if found < expected:
            raise RunFolderError(f"{path}: it has {found} bytes, but the checkpoint was made at {expected}")
