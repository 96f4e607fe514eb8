"""How far a sweep is: one bar over all jobs on a terminal, a line per job elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from rich.console import Console
from rich.progress import Progress, TaskID
from typing_extensions import override

from flexray.config.typed import read
from flexray.core.messages import Record, RoundRecord, Started
from flexray.run.watch.base import Observer
from flexray.run.watch.terminal import progress_columns

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
        if console.is_terminal:
            self.bars = Progress(*progress_columns(), console=console)
            self._task = self.bars.add_task("sweep", total=total, now="jobs")
            self.bars.start()

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            self._rounds = record.rounds
        elif isinstance(record, RoundRecord) and self._rounds:
            self._show(self._done + min(record.round / self._rounds, ALMOST))

    def job_ended(self) -> None:
        """Count a job, also one that failed but none that was interrupted, and say how long the others will take."""
        self._done += 1
        self._rounds = None
        self._show(self._done)
        if self.bars is None:
            took_s, self._job_s = self._now() - self._job_s, self._now()
            place = f"{self._done}" if self._total is None else f"{self._done} of {self._total}"
            rest = "" if self._done == self._total else left(self._done, self._total, self._now() - self._started_s)
            log.info("job %s: %.1f s%s", place, took_s, rest)

    def _show(self, done: float) -> None:
        if self.bars is not None and self._task is not None:
            self.bars.update(self._task, completed=round(done, 3))

    def stop(self) -> None:
        """Take the bars away."""
        if self.bars is not None:
            self.bars.stop()


def left(done: int, total: int | None, took_s: float) -> str:
    """Return how long the other jobs will take if they are like those before, in words after a semicolon."""
    if total is None or not 0 < done < total:
        return ""
    return f"; about {timedelta(seconds=round(took_s / done * (total - done)))} left"


def count_jobs(arguments: Iterable[str]) -> int | None:
    """Return how many jobs Hydra's basic sweeper makes of a command line; None if that is unknown beforehand."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.errors import HydraException

    try:
        overrides = [read(argument) for argument in arguments if not argument.startswith("-")]
        if any(override.get_key_element().startswith("hydra/sweeper") for override in overrides):
            return None
        return sum(len(batch) for batch in BasicSweeper.split_arguments(overrides, None))
    except (HydraException, ValueError, NotImplementedError):
        return None
