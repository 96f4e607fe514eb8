"""Formats of tasks' usage: from rate x time per machine and window to utilization, by the capacities of machines.

Utilization of a machine in a window = sum over its tasks of rate x overlap, over the integral of its capacity in that
window: a capacity that changes within a window counts by its share, and a machine that joins within a window is
measured from then on.

Shapes: n = machine events, w = windows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from flexray.core.errors import DataError
from flexray.traces.cleaning import Counts, Policy, judge
from flexray.traces.files import BoolArray, FloatArray, IntArray
from flexray.traces.formats.base import DEFAULT_STEP_S, Format, Imported, Request
from flexray.traces.grid import BAD, Grid
from flexray.traces.ordered import in_order
from flexray.traces.usage import MICRO, Cells

AHEAD = 32
"""Chunks of a file that may wait to be added up: a whole shard of Google's 500, some 3 MB each."""
FOREVER_US = 1 << 62
"""Limit of times; Google stamps events after the end of a trace with 2^63 - 1."""


@dataclass(frozen=True)
class Capacity:
    """The CPU capacity of one machine over time: ``cpus[i]`` from ``time_us[i]`` on, 0 while it is not there."""

    time_us: IntArray
    cpus: FloatArray

    def integral(self, first: int, windows: int, step_us: int) -> FloatArray:
        """Return capacity x microseconds in each window; exact for whole microseconds."""
        if self.time_us[-1] <= first * step_us:
            return np.full(windows, self.cpus[-1] * step_us)
        border_us = (first + np.arange(windows + 1)) * step_us
        spans_us = np.diff(np.minimum(self.time_us, FOREVER_US))
        area = np.concatenate([[0.0], np.cumsum(spans_us * self.cpus[:-1])])
        i = np.searchsorted(self.time_us, border_us, side="right") - 1
        here = np.where(i >= 0, area[i] + (border_us - self.time_us[i]) * self.cpus[i], 0.0)
        whole: FloatArray = np.diff(here)
        inside = np.diff(i) == 0
        return np.where(inside & (i[:-1] >= 0), self.cpus[i[:-1]] * step_us, np.where(inside, 0.0, whole))


@dataclass(frozen=True)
class Events:
    """Rows of ``machine_events``: a machine has ``cpus_n`` (NaN: as before) from ``time_n`` on, none once removed."""

    time_n: IntArray
    machine_n: IntArray
    removed_n: BoolArray
    cpus_n: FloatArray


class TaskFormat(Format):
    """Usage of tasks, summed by machine and window, over the machine's capacity."""

    unit = "fraction"

    @abstractmethod
    def cells(self, path: Path, step_us: int, request: Request) -> Iterator[Cells]:
        """Read the usage of a file by machine and window, chunk by chunk."""

    @abstractmethod
    def read_events(self, path: Path) -> Iterator[Events]:
        """Read a file of machine events, chunk by chunk."""

    def read(self, request: Request, counts: Counts) -> Imported:
        """Sum the usage of all tasks on each machine, file after file, over its capacity."""
        step_us = (request.step_s or DEFAULT_STEP_S) * MICRO
        file = request.machine_events
        known = capacities(file, list(self.read_events(file))) if file else None
        jobs = [partial(self.cells, path, step_us, request) for path in request.files]
        grid = Grid(request.max_machines, counting=False)
        for cells in in_order(jobs, request.workers, AHEAD):
            cells.add_to(grid, counts)
        if grid.last < 0:
            raise DataError(f"{request.files[0]}: expected rows that name a machine and a time, got none")
        counts.add("start_shift_s", grid.first * step_us // MICRO)
        return Imported(step_us / MICRO, _utilizations(grid, known, step_us, request, counts))


def capacities(path: Path, found: Sequence[Events]) -> dict[str, Capacity]:
    """Return the capacity over time of every machine that has one."""
    if not found:
        raise DataError(f"{path}: expected machine events, got an empty file")
    columns = zip(*(vars(events).values() for events in found), strict=True)
    time_n, machine_n, removed_n, cpus_n = (np.concatenate(parts) for parts in columns)
    order_n = np.lexsort((np.arange(len(time_n)), time_n, machine_n))
    bounds = np.flatnonzero(np.diff(machine_n[order_n], prepend=machine_n[order_n][:1] - 1))
    result = {}
    for own in np.split(order_n, bounds[1:]):
        cpus, known = np.zeros(len(own)), 0.0
        for i, n in enumerate(own):
            known = known if np.isnan(cpus_n[n]) else max(0.0, float(cpus_n[n]))
            cpus[i] = 0.0 if removed_n[n] else known
        if cpus.any():
            last_of_time = np.diff(time_n[own], append=time_n[own][-1:] + 1) != 0
            result[str(machine_n[own[0]])] = Capacity(time_n[own][last_of_time], cpus[last_of_time])
    return result


def _utilizations(
    grid: Grid, known: Mapping[str, Capacity] | None, step_us: int, request: Request, counts: Counts
) -> Iterator[tuple[str, FloatArray]]:
    """Yield machine and utilization per window, NaN where it is not known.

    Args:
        grid: Rate x microseconds, summed.
        known: Capacities by machine; None: all have capacity 1.
        step_us: Microseconds of a window.
        request: Its ``idle`` decides windows without a row of a machine that was there. Windows without a row of any
            machine were not measured: they are gaps.
        counts: Faults are added to them.
    """
    measured_w = grid.touched()
    for name, used_w, mark_w in grid.rows():
        if known is not None and name not in known:
            counts.add("no_capacity", 1, f"machine '{name}'")
            continue
        there_w = np.full(len(used_w), float(step_us))
        if known is not None:
            there_w = known[name].integral(grid.first, len(used_w), step_us)
        idle_w = (mark_w == 0) & (there_w > 0) & measured_w
        counts.add("idle", int(idle_w.sum()), f"machine '{name}'")
        gap_w = (there_w <= 0) | ((mark_w == 0) & ~(idle_w & (request.idle == "zero")))
        counts.add("gaps", int(gap_w.sum()), f"machine '{name}'")
        with np.errstate(divide="ignore", invalid="ignore"):
            value_w = used_w / there_w
        value_w = np.where(gap_w | (mark_w == BAD), np.nan, value_w)
        yield name, _judged(name, value_w, request.policy, counts)


def _judged(name: str, value_w: FloatArray, policy: Policy, counts: Counts) -> FloatArray:
    """Deal with windows in which tasks used more than the machine has."""
    known_w = np.flatnonzero(~np.isnan(value_w))
    value_w[known_w], unusable = judge(
        value_w[known_w], policy, counts, lambda index: f"machine '{name}', window {known_w[index]}"
    )
    value_w[known_w[unusable]] = np.nan
    return value_w
