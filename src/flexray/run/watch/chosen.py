"""What watches a run, as its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flexray.config.job import Job
from flexray.core.runfolder import flatten
from flexray.run.watch.base import Observer
from flexray.run.watch.constraint import ConstraintObserver
from flexray.run.watch.folder import ModelObserver, TableObserver
from flexray.run.watch.sweep_progress import SweepProgress
from flexray.run.watch.terminal import ProgressObserver
from flexray.run.watch.timeline import TimelineObserver
from flexray.run.watch.trackers import make_tracker
from flexray.run.watch.tracking import TrackingObserver


def chosen_trackers(config: Mapping[str, Any], job: Job, folder: Path, base_dir: Path) -> list[Observer]:
    """Return what hands the run to an experiment tracker, if one was chosen."""
    if config["logger"]["kind"] == "none":
        return []
    params = {"name": run_name(job), **flatten(dict(config))}
    return [TrackingObserver(make_tracker(config["logger"], folder, base_dir, params))]


def run_name(job: Job) -> str:
    """Return what a run is called where many are shown."""
    return f"{job.algo}-{job.dataset}-{job.experiment.shared.seed}"


def usual_observers(job: Job, folder: Path, keep: bool, quiet: bool, sweep: SweepProgress | None) -> list[Observer]:
    """Return what writes the run folder and, unless ``quiet``, shows progress; ``keep``: files go on as they are."""
    x = job.experiment
    observers: list[Observer] = [
        TableObserver(folder, keep),
        TimelineObserver(folder, job.timeline_rounds, x.time_unit, keep),
        ModelObserver(folder),
    ]
    if job.smoothness:
        optimizers = [spec.optimizer for spec in (*x.parties, x.shared.server)]
        observers.append(ConstraintObserver(job.smoothness, optimizers))
    if job.progress and not quiet:
        bars = sweep.bars if sweep else None
        observers.append(ProgressObserver(x.target.metric, x.limits.max_time, x.time_unit, shared=bars))
    if sweep:
        observers.append(sweep)
    return observers
