"""From rows of tasks' CPU usage to rate x time per machine and window, for both Google formats.

Shapes: n = rows of usage (after splitting: parts of rows that lie in one window).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.traces.chunks import Chunk
from flexray.traces.cleaning import Counts
from flexray.traces.files import BoolArray, FloatArray, IntArray
from flexray.traces.grid import MAX_WINDOWS, Grid

MICRO = 1_000_000


@dataclass(frozen=True)
class Usage:
    """Rows of one chunk: ``rate_n`` of CPU used from ``start_n`` to ``end_n`` (us).

    ``machine_n`` is not positive where no machine is named, ``task_n`` distinguishes tasks, ``row_n`` is the place in
    the chunk.
    """

    start_n: IntArray
    end_n: IntArray
    machine_n: IntArray
    rate_n: FloatArray
    task_n: IntArray
    row_n: IntArray

    def pick(self, chosen: BoolArray | IntArray) -> Usage:
        """Return the chosen rows."""
        return Usage(*(column[chosen] for column in vars(self).values()))


@dataclass(frozen=True)
class Cells:
    """Amounts that one chunk adds to windows of machines, ready for a ``Grid``."""

    machines: IntArray
    machine_n: npt.NDArray[np.int32]
    window_n: npt.NDArray[np.int32]
    amount_n: FloatArray
    bad_n: BoolArray
    counts: Counts = field(default_factory=Counts)

    def add_to(self, grid: Grid, counts: Counts) -> None:
        """Add the chunk's amounts and faults; called in the order of the files."""
        counts.merge(self.counts)
        number_n = grid.numbers(self.machines.tolist())[self.machine_n]
        columns = (number_n, self.window_n.astype(np.int64), self.amount_n, self.bad_n)
        known_n = number_n >= 0
        if not known_n.all():
            counts.add("beyond_limit", int((~known_n).sum()))
            columns = (number_n[known_n], columns[1][known_n], self.amount_n[known_n], self.bad_n[known_n])
        grid.add(*columns)


def mix(*parts: IntArray) -> IntArray:
    """Return a 64-bit hash per row, in practice unique to the combination of the parts."""
    mixed_n = np.zeros(len(parts[0]), np.uint64)
    for part in parts:
        mixed_n ^= part.view(np.uint64)
        mixed_n *= np.uint64(0x9E3779B97F4A7C15)
        mixed_n ^= mixed_n >> np.uint64(29)
    return mixed_n.view(np.int64)


class Splitter:
    """Turns the chunks of one file, in order, into cells; remembers tasks that may overlap rows of the next chunk.

    Args:
        step_us: Microseconds of a window.
        names_tasks: Whether the file names tasks; if not, rows that overlap are different tasks.
    """

    def __init__(self, step_us: int, names_tasks: bool = True) -> None:
        self._step_us, self._names_tasks = step_us, names_tasks
        self._open = tuple(np.empty(0, np.int64) for _ in range(3))
        self._last_start = -1

    def cells(self, chunk: Chunk, usage: Usage) -> Cells:
        """Check rows, cut them at window borders and multiply rate by time."""
        counts = Counts()
        self._count_unsorted(chunk, usage, counts)
        placed_n = (usage.machine_n > 0) & (usage.end_n > usage.start_n) & (usage.start_n >= 0)
        for kind, fault_n in (
            ("no_machine", usage.machine_n <= 0),
            ("reversed", (usage.end_n <= usage.start_n) | (usage.start_n < 0)),
            ("nan", ~np.isfinite(usage.rate_n)),
            ("negative", usage.rate_n < 0),
        ):
            if fault_n.any():
                counts.add(kind, int(fault_n.sum()), chunk.where(int(usage.row_n[fault_n][0])))
        if not placed_n.all():
            usage = usage.pick(placed_n)
        if self._names_tasks and len(usage.row_n):
            usage = self._without_overlap(chunk, usage, counts)
        return self._split(chunk, usage, counts)

    def _count_unsorted(self, chunk: Chunk, usage: Usage, counts: Counts) -> None:
        unsorted_n = np.diff(usage.start_n, prepend=self._last_start) < 0
        if unsorted_n.any():
            counts.add("unsorted", int(unsorted_n.sum()), chunk.where(int(usage.row_n[unsorted_n][0])))
        if len(unsorted_n):
            self._last_start = int(usage.start_n[-1])

    def _without_overlap(self, chunk: Chunk, usage: Usage, counts: Counts) -> Usage:
        """Cut from each row the time that an earlier row of the same task on the same machine covers already."""
        last_start = int(usage.start_n[-1])
        order_n = _by_task(usage)
        task_n, start_n, end_n = usage.task_n[order_n], usage.start_n[order_n], usage.end_n[order_n]
        first_n = np.diff(task_n, prepend=task_n[:1] - 1) != 0
        covered_n = np.where(first_n, self._covered(task_n, start_n), np.concatenate([end_n[:1], end_n[:-1]]))
        overlap_n = start_n < covered_n
        self._remember(task_n, start_n, end_n, last_start)
        if not overlap_n.any():
            return usage
        usage = usage.pick(order_n)
        trimmed_n = np.array(_trimmed(first_n.tolist(), covered_n.tolist(), start_n.tolist(), end_n.tolist()))
        overlap_n = trimmed_n > start_n
        counts.add("overlapping", int(overlap_n.sum()), chunk.where(int(usage.row_n[overlap_n].min())))
        return replace(usage, start_n=trimmed_n).pick(trimmed_n < end_n)

    def _covered(self, task_n: IntArray, start_n: IntArray) -> IntArray:
        """Return the end of the earlier chunk's row that covers ``start_n``; 0 where none does."""
        tasks, starts, ends = self._open
        if not len(tasks):
            return np.zeros(len(task_n), np.int64)
        place_n = np.minimum(np.searchsorted(tasks, task_n), len(tasks) - 1)
        known_n = (tasks[place_n] == task_n) & (starts[place_n] <= start_n)
        return np.where(known_n, ends[place_n], 0)

    def _remember(self, task_n: IntArray, start_n: IntArray, end_n: IntArray, last_start: int) -> None:
        """Remember the tasks whose rows reach beyond the last start; in a sorted file no others can overlap."""
        kept, later_n = self._open[2] > last_start, end_n > last_start
        pairs = zip(self._open, (task_n, start_n, end_n), strict=True)
        tasks, starts, ends = (np.concatenate([old[kept], new[later_n]]) for old, new in pairs)
        order = np.lexsort((ends, tasks))
        order = order[np.diff(tasks[order], append=tasks[order][-1:] + 1) != 0]
        self._open = tasks[order], starts[order], ends[order]

    def _split(self, chunk: Chunk, usage: Usage, counts: Counts) -> Cells:
        step = self._step_us
        bad_n = ~(np.isfinite(usage.rate_n) & (usage.rate_n >= 0))
        machines, inverse_n = np.unique(usage.machine_n, return_inverse=True)
        machine_n, rate_n = inverse_n.astype(np.int32), usage.rate_n
        start_n, end_n = usage.start_n, usage.end_n
        window_n = start_n // step
        parts_n = (end_n - 1) // step - window_n + 1
        if len(parts_n) and max(parts_n.max(), window_n.max()) > MAX_WINDOWS:
            row = int(usage.row_n[np.argmax(end_n)])
            raise DataError(f"{chunk.where(row)}: a time beyond {MAX_WINDOWS} windows; expected microseconds")
        if (parts_n != 1).any():
            n = np.repeat(np.arange(len(parts_n)), parts_n)
            window_n = window_n[n] + np.arange(len(n)) - np.repeat(np.cumsum(parts_n) - parts_n, parts_n)
            start_n, end_n = np.maximum(start_n[n], window_n * step), np.minimum(end_n[n], (window_n + 1) * step)
            rate_n, machine_n, bad_n = rate_n[n], machine_n[n], bad_n[n]
        return Cells(machines, machine_n, window_n.astype(np.int32), rate_n * (end_n - start_n), bad_n, counts)


def _by_task(usage: Usage) -> IntArray:
    """Return the order of rows by task, then start, then place; a plain sort is enough where no task occurs twice."""
    order_n: IntArray = np.argsort(usage.task_n)
    same_n = np.diff(usage.task_n[order_n]) == 0
    if (np.diff(usage.start_n[order_n])[same_n] < 0).any() or not np.all(np.diff(order_n)[same_n] > 0):
        order_n = np.lexsort((usage.start_n, usage.task_n))
    return order_n


def _trimmed(first: list[bool], covered: list[int], starts: list[int], ends: list[int]) -> list[int]:
    """Return later starts, so that rows of one task, sorted by start, cover no time twice."""
    reached, result = 0, []
    for is_first, before, start, end in zip(first, covered, starts, ends, strict=True):
        reached = before if is_first else reached
        result.append(max(start, reached))
        reached = max(reached, end)
    return result
