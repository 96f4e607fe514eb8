"""From rate x time per machine and window to utilization: capacities of machines, and the sums over all files.

Utilization of a machine in a window = sum over its tasks of rate x overlap, over the capacity that the machine had in
that window, integrated over time; so a capacity that changes within a window counts by its share of the window, and a
machine that joins within a window is measured against the time since then.

Shapes: n = machine events, w = windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.traces.cleaning import Counts, Policy, judge
from flexray.traces.formats.base import Imported, Request
from flexray.traces.grid import BAD, Grid
from flexray.traces.ordered import in_order
from flexray.traces.usage import MICRO, Cells

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

AHEAD = 32
"""Chunks of a file that may wait to be added up: a whole shard of Google's 500, some 3 MB each."""
FOREVER_US = 1 << 62
"""Google stamps what happens after the end of a trace with 2^63 - 1."""


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


@dataclass(frozen=True)
class Events:
    """Rows of ``machine_events``: a machine has ``cpus_n`` (NaN: as before) from ``time_n`` on, none once removed."""

    time_n: IntArray
    machine_n: IntArray
    removed_n: npt.NDArray[np.bool_]
    cpus_n: FloatArray


def capacities(path: Path, found: Sequence[Events]) -> dict[str, Capacity]:
    """Return the capacity over time of every machine that has one."""
    if not found:
        raise DataError(f"{path}: expected machine events, got an empty file")
    time_n, machine_n, removed_n, cpus_n = (
        np.concatenate(parts)
        for parts in zip(*((e.time_n, e.machine_n, e.removed_n, e.cpus_n) for e in found), strict=True)
    )
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


def add_up(
    jobs: Sequence[Callable[[], Iterator[Cells]]],
    request: Request,
    known: Mapping[str, Capacity] | None,
    step_us: int,
    counts: Counts,
) -> Imported:
    """Add up what the files' rows used, file after file, and return the machines' utilizations."""
    grid = Grid(request.max_machines, counting=False)
    for cells in in_order(jobs, request.workers, AHEAD):
        cells.add_to(grid, counts)
    if grid.last < 0:
        raise DataError(f"{request.files[0]}: expected rows that name a machine and a time, got none")
    counts.add("start_shift_s", grid.first * step_us // MICRO)
    rows = utilizations(grid, known, step_us, request.idle, counts)
    return Imported(step_us / MICRO, judged(rows, request.policy, counts))


def _place(name: str, known_w: IntArray, index: int) -> str:
    return f"machine '{name}', window {known_w[index]}"


def judged(rows: Iterable[tuple[str, FloatArray]], policy: Policy, counts: Counts) -> Iterator[tuple[str, FloatArray]]:
    """Deal with windows in which tasks used more than the machine has."""
    for name, value_w in rows:
        known_w = np.flatnonzero(~np.isnan(value_w))
        place = partial(_place, name, known_w)
        value_w[known_w], unusable = judge(value_w[known_w], policy, counts, place)
        value_w[known_w[unusable]] = np.nan
        yield name, value_w
