"""Sweeps: their progress, one bar over all jobs or a line per job, and the table at the end.

The table shows time-to-target by all that differs but seeds, as the report does.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table
from typing_extensions import override

from flexray.config.typed import read
from flexray.core.errors import RunFolderError
from flexray.core.messages import Record, RoundRecord, Started
from flexray.core.runfolder import EVALS_FILE, read_table
from flexray.report.folders import chosen_and_typed
from flexray.report.grouping import READINGS, Group, make_groups
from flexray.report.runs import COMPLETED, Run
from flexray.report.statistics import evaluations_apart, reading, spread, with_deviation
from flexray.report.tables import goal
from flexray.run.watch.base import Observer
from flexray.run.watch.terminal import progress_columns, shows_bars

ALMOST = 0.999
"""Part of a job that is done with its last round; a job counts when it has ended."""

log = logging.getLogger("flexray")


class SweepProgress(Observer):
    """Counts jobs; within a job it follows the rounds. It lives as long as the sweep: the end of a job closes nothing.

    Args:
        total: Number of jobs; None if the sweeper does not say.
        console: Where to show it.
        now: Returns seconds.
    """

    def __init__(
        self, total: int | None, console: Console | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = total
        self._now = now
        self._started_s = self._job_s = now()
        self._done = 0
        self._rounds: int | None = None
        console = console or Console()
        self.bars: Progress | None = None
        self._task: TaskID | None = None
        if shows_bars(console):
            self.bars = Progress(*progress_columns(), console=console)
            self._task = self.bars.add_task("sweep", total=total, now="jobs")
            self.bars.start()

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            self._rounds = record.rounds
        elif isinstance(record, RoundRecord) and self._rounds:
            self._show(self._done + min(record.round / self._rounds, ALMOST))

    def job_ended(self, took_s: float | None = None) -> None:
        """Count a job, also one that failed but none that was interrupted, and say how long the others will take.

        Args:
            took_s: Seconds that it took; None: all since the one before ended.
        """
        self._done += 1
        self._rounds = None
        self._show(self._done)
        if self.bars is None:
            took_s, self._job_s = self._now() - self._job_s if took_s is None else took_s, self._now()
            place = f"{self._done}" if self._total is None else f"{self._done} of {self._total}"
            rest = "" if self._done == self._total else left(self._done, self._total, self._now() - self._started_s)
            log.info("job %s: %.1f s%s", place, took_s, rest)

    def _show(self, done: float) -> None:
        if self.bars is not None and self._task is not None:
            self.bars.update(self._task, completed=round(done, 3))

    def stop(self) -> None:
        """Remove the bars."""
        if self.bars is not None:
            self.bars.stop()


def left(done: int, total: int | None, took_s: float) -> str:
    """Return the time left, if the other jobs take as long as those before, in words after a semicolon."""
    if total is None or not 0 < done < total:
        return ""
    return f"; about {timedelta(seconds=round(took_s / done * (total - done)))} left"


def count_jobs(arguments: Iterable[str], params: Mapping[str, Any] | None = None) -> int | None:
    """Return how many jobs Hydra's basic sweeper makes of a command line; None if that is unknown beforehand.

    Args:
        arguments: The command line.
        params: Axes that a chosen file has, ``hydra.sweeper.params``; a typed key takes the place of one.
    """
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.errors import HydraException

    try:
        words = (*(f"{key}={value}" for key, value in (params or {}).items()), *arguments)
        overrides = [read(word) for word in words if not word.startswith("-")]
        if any(override.get_key_element().startswith("hydra/sweeper") for override in overrides):
            return None
        return sum(len(batch) for batch in BasicSweeper.split_arguments(overrides, None))
    except (HydraException, ValueError, NotImplementedError):
        return None


def sweep_table(summaries: Sequence[dict[str, Any]]) -> Table:
    """Return one row per group of the report: mean and sample deviation of time-to-target, in units or seconds.

    A target that not every run reached is ``--``, never a mean over those that did; runs that were interrupted or given
    up are not counted, nor is a seed that is run again, which a line below the table says.

    Args:
        summaries: Of the jobs, in order, each with what :func:`about_job` adds.
    """
    groups = make_groups([_as_run(summary) for summary in summaries])
    swept = [key for key in groups[0].values if key not in ("algo", "dataset", *READINGS)]
    units = sorted({group.runs[0].time_unit for group in groups})
    targets = any(summary["target"] is not None for summary in summaries)
    title = f"time to target ({' or '.join(units)})" if targets else "at the end"
    table = Table(title=title, caption="\n".join(_notes(summaries, groups, targets)) or None)
    for column in ("algo", "dataset", *swept, *(("target",) if targets else ())):
        table.add_column(column)
    for column in ("time to target", "reached", "final") if targets else ("runs", _final_of(groups)):
        table.add_column(column, justify="right")
    for group in groups:
        names = [group.values[key] for key in ("algo", "dataset", *swept)]
        table.add_row(*names, *_outcome(group, targets, len(units) > 1))
    return table


def about_job(config: Mapping[str, Any], chosen: Any, folder: Path) -> dict[str, Any]:
    """Return what the table needs of a job beside its summary.

    Args:
        config: Its configuration, flat.
        chosen: Hydra's own configuration of the job.
        folder: Its run folder.
    """
    known = chosen_and_typed(chosen.runtime.choices, chosen.overrides.task)
    return {**known, "config": dict(config), "apart": _apart(folder)}


def _apart(folder: Path) -> float | None:
    """Return the time between evaluations of a run, from its folder."""
    try:
        times = [float(text) for text in read_table(folder / EVALS_FILE, unfinished=True).get("sim_time", ())]
    except (RunFolderError, ValueError):
        return None
    return evaluations_apart(times)


def _as_run(summary: dict[str, Any]) -> Run:
    choices, typed = summary.get("choices", {}), tuple(summary.get("typed", ()))
    return Run(Path(), "", summary["status"], "", summary, summary["config"], choices, typed)


def _outcome(group: Group, targets: bool, with_unit: bool) -> list[str]:
    """Return the target, time to it, number of runs that reached it, and the metric at the end."""
    runs = [run.summary for run in group.counted]
    times = [run["time_to_target"] for run in runs if run["time_to_target"] is not None]
    finals = [run["final"].get(run["metric"]) for run in runs if run["status"] == COMPLETED]
    finals = [value for value in finals if value is not None]
    final = with_deviation(spread(finals) if len(finals) == len(runs) else None, 4)
    if not targets:
        return [f"{len(runs)}", final]
    time = with_deviation(spread(times) if len(times) == len(runs) else None)
    unit = f" {group.runs[0].time_unit}" if with_unit and time != "--" else ""
    return [goal(group.runs[0]), f"{time}{unit}", f"{len(times)} of {len(runs)}", final]


def _final_of(groups: Sequence[Group]) -> str:
    metrics = {group.runs[0].metric for group in groups}
    return f"final {metrics.pop()}" if len(metrics) == 1 else "final"


def _notes(summaries: Sequence[dict[str, Any]], groups: Sequence[Group], targets: bool) -> list[str]:
    counted = [run for group in groups for run in group.counted]
    counts = Counter(s["status"] for s in summaries if not _as_run(s).counted)
    if again := len(summaries) - counts.total() - len(counted):
        counts["with the same seed again"] = again
    notes = [f"not counted: {', '.join(f'{count} {status}' for status, count in counts.items())}"] if counts else []
    gaps = [apart for run in counted if (apart := run.summary.get("apart")) is not None]
    units = " or ".join(sorted({run.time_unit for run in counted}))
    return [*notes, *([reading(gaps, units)] if targets and gaps else [])]
