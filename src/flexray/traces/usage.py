"""From what tasks used to what machines were utilized: the arithmetic that both Google formats share.

Utilization of a machine in a window = sum over its tasks of rate x overlap, over the capacity that the machine had in
that window, integrated over time; so a capacity that changes within a window counts by its share of the window, and a
machine that joins within a window is measured against the time since then.

Shapes: n = rows of usage (after splitting: parts of rows that lie in one window), w = windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from flexray.errors import DataError
from flexray.traces.chunks import Chunk
from flexray.traces.cleaning import Counts
from flexray.traces.grid import BAD, MAX_WINDOWS, Grid

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MICRO = 1_000_000
FOREVER_US = 1 << 62
"""Google stamps what happens after the end of a trace with 2^63 - 1."""


@dataclass(frozen=True)
class Usage:
    """Rows of one chunk. ``task_n`` tells tasks apart, ``machine_n`` is -1 where none is named."""

    start_n: IntArray
    end_n: IntArray
    task_n: IntArray
    machine_n: IntArray
    rate_n: FloatArray

    def __getitem__(self, keep: npt.NDArray[np.generic]) -> Usage:
        return Usage(
            self.start_n[keep], self.end_n[keep], self.task_n[keep], self.machine_n[keep], self.rate_n[keep]
        )  # fmt: skip


@dataclass(frozen=True)
class Cells:
    """What one chunk adds to windows of machines, ready for a ``Grid``."""

    machines: IntArray
    machine_n: npt.NDArray[np.int32]
    window_n: npt.NDArray[np.int32]
    amount_n: FloatArray
    bad_n: npt.NDArray[np.bool_]
    counts: Counts = field(default_factory=Counts)

    def add_to(self, grid: Grid, counts: Counts) -> None:
        """Add the chunk's amounts and faults; called in the order of the files."""
        counts.merge(self.counts)
        number_n = grid.numbers(self.machines.tolist())[self.machine_n]
        known_n = number_n >= 0
        if not known_n.all():
            counts.add("beyond_limit", int((~known_n).sum()))
        grid.add(number_n[known_n], self.window_n[known_n].astype(np.int64), self.amount_n[known_n], self.bad_n[known_n])


def mix(*parts: IntArray) -> IntArray:
    """Return one number per row that tells combinations of the parts apart (64 bits: no two alike in practice)."""
    mixed_n = np.zeros(len(parts[0]), np.uint64)
    for part in parts:
        mixed_n = (mixed_n ^ part.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed_n ^= mixed_n >> np.uint64(29)
    return mixed_n.view(np.int64)


class Splitter:
    """Turns the chunks of one file, in order, into cells; remembers which tasks were seen to overlap the next chunk."""

    def __init__(self, step_us: int) -> None:
        self._step_us = step_us
        self._open_tasks = np.empty(0, np.int64)
        self._open_ends = np.empty(0, np.int64)
        self._last_start = -1

    def cells(self, chunk: Chunk, usage: Usage) -> Cells:
        """Check rows, cut them at window borders and multiply rate by time."""
        counts = Counts()
        self._count_unsorted(chunk, usage.start_n, counts)
        bad_n = ~np.isfinite(usage.rate_n)
        for kind, fault_n in (
            ("no_machine", usage.machine_n <= 0),
            ("reversed", (usage.end_n <= usage.start_n) | (usage.start_n < 0)),
            ("nan", bad_n),
            ("negative", usage.rate_n < 0),
        ):
            if fault_n.any():
                counts.add(kind, int(fault_n.sum()), chunk.where(int(np.flatnonzero(fault_n)[0])))
        keep_n = (usage.machine_n > 0) & (usage.end_n > usage.start_n) & (usage.start_n >= 0)
        rows_n = np.arange(len(keep_n))
        if not keep_n.all():
            usage, rows_n = usage[keep_n], rows_n[keep_n]
        usage = self._without_overlap(chunk, usage, rows_n, counts)
        bad_n = ~(usage.rate_n >= 0) | np.isinf(usage.rate_n)
        machines, machine_n = np.unique(usage.machine_n, return_inverse=True)
        return self._split(chunk, usage, machines, machine_n.astype(np.int32), bad_n, counts)

    def _count_unsorted(self, chunk: Chunk, start_n: IntArray, counts: Counts) -> None:
        unsorted_n = np.diff(start_n, prepend=self._last_start) < 0
        if unsorted_n.any():
            counts.add("unsorted", int(unsorted_n.sum()), chunk.where(int(np.flatnonzero(unsorted_n)[0])))
        if len(start_n):
            self._last_start = int(start_n[-1])

    def _without_overlap(self, chunk: Chunk, usage: Usage, rows_n: IntArray, counts: Counts) -> Usage:
        """Cut from each row the time that an earlier row of the same task on the same machine covers already."""
        order_n = np.lexsort((usage.start_n, usage.task_n))
        task_n, start_n, end_n = usage.task_n[order_n], usage.start_n[order_n], usage.end_n[order_n]
        fresh_n = np.diff(task_n, prepend=task_n[:1] - 1) != 0
        covered_n = np.where(fresh_n, self._covered(task_n), np.concatenate([end_n[:1], end_n[:-1]]))
        overlap_n = start_n < covered_n
        self._remember(usage.start_n, task_n, end_n)
        if not overlap_n.any():
            return usage
        counts.add("overlapping", int(overlap_n.sum()), chunk.where(int(rows_n[order_n[overlap_n]].min())))
        group_n = np.cumsum(fresh_n)
        base = int(end_n.max()) + 1
        reached_n = np.maximum(np.where(fresh_n, covered_n, 0), 0) + group_n * base
        reached_n[1:] = np.maximum(reached_n[1:], np.where(fresh_n[1:], 0, end_n[:-1] + group_n[1:] * base))
        covered_n = np.maximum.accumulate(reached_n) - group_n * base
        start_n = np.maximum(start_n, covered_n)
        trimmed = Usage(start_n, end_n, task_n, usage.machine_n[order_n], usage.rate_n[order_n])
        return trimmed[trimmed.end_n > trimmed.start_n]

    def _covered(self, task_n: IntArray) -> IntArray:
        """Return until when the chunk before covers each task; 0 if it does not."""
        if not len(self._open_tasks):
            return np.zeros(len(task_n), np.int64)
        place_n = np.minimum(np.searchsorted(self._open_tasks, task_n), len(self._open_tasks) - 1)
        return np.where(self._open_tasks[place_n] == task_n, self._open_ends[place_n], 0)

    def _remember(self, start_n: IntArray, task_n: IntArray, end_n: IntArray) -> None:
        """Keep the tasks whose rows reach beyond the last start; in a sorted file nothing else can overlap."""
        if not len(start_n):
            return
        tasks = np.concatenate([self._open_tasks, task_n])
        ends = np.concatenate([self._open_ends, end_n])
        later = ends > start_n[-1]
        order = np.lexsort((ends[later], tasks[later]))
        tasks, ends = tasks[later][order], ends[later][order]
        last = np.diff(tasks, append=tasks[-1:] + 1) != 0
        self._open_tasks, self._open_ends = tasks[last], ends[last]

    def _split(
        self, chunk: Chunk, usage: Usage, machines: IntArray, machine_n: npt.NDArray[np.int32],
        bad_n: npt.NDArray[np.bool_], counts: Counts,
    ) -> Cells:  # fmt: skip
        step = self._step_us
        window_n, end_n = usage.start_n // step, usage.end_n
        parts_n = (end_n - 1) // step - window_n + 1
        if len(parts_n) and parts_n.max() > MAX_WINDOWS:
            raise DataError(f"{chunk.path}: after line {chunk.line}: a row that lasts more than {MAX_WINDOWS} windows")
        start_n, rate_n = usage.start_n, usage.rate_n
        if (parts_n != 1).any():
            n = np.repeat(np.arange(len(parts_n)), parts_n)
            window_n = window_n[n] + np.arange(len(n)) - np.repeat(np.cumsum(parts_n) - parts_n, parts_n)
            start_n, end_n = np.maximum(start_n[n], window_n * step), np.minimum(end_n[n], (window_n + 1) * step)
            rate_n, machine_n, bad_n = rate_n[n], machine_n[n], bad_n[n]
        return Cells(machines, machine_n, window_n.astype(np.int32), rate_n * (end_n - start_n), bad_n, counts)


@dataclass(frozen=True)
class Capacity:
    """The CPU capacity of one machine over time: ``cpus[i]`` from ``time_us[i]`` on, 0 while it is not there."""

    time_us: IntArray
    cpus: FloatArray

    def integral(self, first: int, windows: int, step_us: int) -> FloatArray:
        """Return capacity x microseconds in each window; exact for whole microseconds."""
        border_us = (first + np.arange(windows + 1)) * step_us
        spans_us = np.diff(np.minimum(self.time_us, FOREVER_US))
        area = np.concatenate([[0.0], np.cumsum(spans_us * self.cpus[:-1])])
        i = np.searchsorted(self.time_us, border_us, side="right") - 1
        here = np.where(i >= 0, area[i] + (border_us - self.time_us[i]) * self.cpus[i], 0.0)
        whole: FloatArray = np.diff(here)
        inside = np.diff(i) == 0
        return np.where(inside & (i[:-1] >= 0), self.cpus[i[:-1]] * step_us, np.where(inside, 0.0, whole))


def utilizations(
    grid: Grid, capacities: Mapping[str, Capacity] | None, step_us: int, idle: str, counts: Counts
) -> Iterator[tuple[str, FloatArray]]:
    """Yield machine and utilization per window, NaN where it is not known.

    Args:
        grid: Rate x microseconds, summed.
        capacities: By machine; None: all have capacity 1.
        step_us: Microseconds of a window.
        idle: ``zero`` or ``gap``: what a window is in which a machine was there and no row names it. Windows in which
            no row names any machine were not measured: they are gaps.
        counts: Is added to.
    """
    measured_w = grid.touched()
    for name, used_w, mark_w in grid.rows():
        if capacities is not None and name not in capacities:
            counts.add("no_capacity", 1, f"machine '{name}'")
            continue
        there_w = np.full(len(used_w), float(step_us))
        if capacities is not None:
            there_w = capacities[name].integral(grid.first, len(used_w), step_us)
        idle_w = (mark_w == 0) & (there_w > 0) & measured_w
        counts.add("idle", int(idle_w.sum()), f"machine '{name}'")
        gap_w = (there_w <= 0) | ((mark_w == 0) & ~(idle_w & (idle == "zero")))
        counts.add("gaps", int(gap_w.sum()), f"machine '{name}'")
        with np.errstate(divide="ignore", invalid="ignore"):
            value_w = used_w / there_w
        yield name, np.where(gap_w | (mark_w == BAD), np.nan, value_w)
