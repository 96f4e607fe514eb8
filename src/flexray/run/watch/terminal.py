"""The terminal: log lines beside a progress bar, or plain lines where there is no terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from typing_extensions import override

from flexray.core.errors import RunFolderError
from flexray.core.messages import Ended, EvalRecord, Record, RoundRecord, Started
from flexray.core.runfolder import check_files
from flexray.run.watch.base import Observer

SETUP_EVERY_S = 10.0
"""Seconds between lines on the processes that have started."""

log = logging.getLogger("flexray")


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes to whatever ``sys.stdout`` is now, so that lines appear above a live progress bar; errors to stderr."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self.stream = sys.stderr if record.levelno >= logging.ERROR else sys.stdout
        super().emit(record)


class RunLog(logging.FileHandler):
    """``run.log``; Hydra opens it before anything else, so it first checks that the run folder may be written to."""

    def __init__(self, filename: str) -> None:
        folder = Path(filename).parent
        if folder.is_symlink():
            raise RunFolderError(f"{folder}: is a link; expected a folder, where a run writes its files")
        check_files(folder)
        super().__init__(filename, encoding="utf-8")


class ProgressObserver(Observer):
    """A progress bar on a terminal; elsewhere a log line per evaluation.

    Args:
        metric: The metric to show, for example ``test_top1``; None: nothing is learned.
        max_time: Limit of time, if the run has no limit in rounds.
        time_unit: Unit of simulated time.
        console: Where to show it.
        shared: The bars of a sweep, to which this one is added.
    """

    def __init__(
        self,
        metric: str | None,
        max_time: float | None = None,
        time_unit: str = "units",
        console: Console | None = None,
        shared: Progress | None = None,
    ) -> None:
        self._metric = metric
        self._max_time = max_time
        self._unit = time_unit
        self._console = console or Console()
        self._shared = shared
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._by_time = False
        self._total: float | None = None
        self._value = "-"
        self._last: RoundRecord | None = None

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            if self._total is None:  # only once, also after a lost process
                self._start(record)
        elif isinstance(record, RoundRecord):
            self._last = record
            self._update(record)
        elif isinstance(record, EvalRecord):
            self._evaluated(record)

    def _start(self, record: Started) -> None:
        self._by_time = record.rounds is None
        total = self._total = self._max_time if self._by_time else record.rounds
        if not shows_bars(self._console):
            unit = f"{total:g} {self._unit}" if self._by_time else f"{total} rounds"
            doing = "training for" if self._metric else "nothing is trained; planning"
            log.info("%s %s, %d rounds an epoch%s", doing, unit, record.rounds_per_epoch, _stacked(record))
            return
        self._progress = self._shared or Progress(*progress_columns(), console=self._console)
        self._task = self._progress.add_task(self._unit if self._by_time else "round", total=total, now="")
        self._progress.start()

    def _update(self, record: RoundRecord) -> None:
        if self._progress is None or self._task is None:
            return
        figures = self._time(record.sim_time)
        if self._metric:
            figures += f"  loss {record.train_loss:.4f}  {self._metric} {self._value}"
        done = record.sim_time if self._by_time else record.round
        self._progress.update(self._task, completed=done, now=figures + _spread(record))

    def _evaluated(self, record: EvalRecord) -> None:
        self._value = f"{record.metrics[str(self._metric)]:.4f}"
        if self._progress is None:
            loss = record.metrics.get("train_loss", record.metrics["test_loss"])
            log.info(
                "round %d  epoch %.2f  %s  loss %.4f  %s %s%s",
                record.round, record.epoch, self._time(record.sim_time), loss, self._metric, self._value,
                _spread(self._last) if self._last else "",
            )  # fmt: skip

    def _time(self, value: float) -> str:
        return f"time {value:.2f} s" if self._unit == "seconds" else f"time {value:.0f}"

    @override
    def close(self) -> None:
        if self._progress is None:
            return
        if self._shared is None:
            self._progress.stop()
        elif self._task is not None:
            self._shared.remove_task(self._task)
        self._progress = None


def _spread(record: RoundRecord) -> str:
    """Return the range of local iterations in a round and, if absence is simulated, the number of absent parties."""
    active = [tau for tau in record.tau if tau > 0]
    absent = "" if record.absent is None else f"  absent {len(record.absent)}"
    return f"  tau {min(active)}..{max(active)}{absent}" if active else f"  tau 0{absent}"


def shows_bars(console: Console) -> bool:
    """Whether bars can be shown: on a terminal, and in Jupyter with its widgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


def progress_columns() -> tuple[ProgressColumn, ...]:
    """Return the columns of a bar: name, bar, steps done of all, figures, time left."""
    return (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[now]}"),
        TimeRemainingColumn(),
    )


@contextmanager
def setup_progress(
    total: int,
    console: Console | None = None,
    shared: Progress | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[int], None]]:
    """Show how many of a run's processes have started: a bar on a terminal, a line now and then elsewhere.

    Args:
        total: Number of processes.
        console: Where to show it.
        shared: The bars of a sweep, to which this one is added.
        now: Returns seconds.
    """
    console, last_s = console or Console(), now()
    bars = (shared or Progress(*progress_columns(), console=console)) if shows_bars(console) else None
    task = bars.add_task("starting processes", total=total, now="") if bars else None

    def show(started: int) -> None:
        nonlocal last_s
        if bars and task is not None:
            bars.update(task, completed=started, refresh=True)
        elif now() - last_s >= SETUP_EVERY_S and started < total:
            last_s = now()
            log.info("started %d of %d processes", started, total)

    try:
        if bars:
            bars.start()
        yield show
    finally:
        if bars and task is not None:
            bars.remove_task(task)
            if bars is not shared:
                bars.stop()


def announce_end(record: Ended) -> None:
    """Say where a run diverged, if it did."""
    if record.divergence:
        where = record.divergence
        what, place = "became NaN or infinite", f", local iteration {where.local_iteration + 1}"
        if where.loss is not None:
            what, place = f"grew to {where.loss:.3g}, more than a million times the first,", ""
        said = "diverged: the loss %s in round %d at %s%s; a lower lr may help"
        log.error(said, what, where.round, where.participant, place)


def _stacked(record: Started) -> str:
    return f"; {record.stacked} of {len(record.names) - 1} parties are stacked" if record.stacked else ""
