"""Formats that sample machines: from samples (machine, time, value) to means per machine and window.

A window's value is the mean of the samples whose time lies in it. Samples may come in any order; rows that are earlier
than the row before, and samples of one machine at one time, are counted.

Shapes: n = samples of one chunk.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from flexray.core.errors import DataError
from flexray.traces.chunks import Chunk, Progress, no_progress
from flexray.traces.cleaning import Counts, judge
from flexray.traces.files import BoolArray, FloatArray, IntArray
from flexray.traces.formats.base import DEFAULT_STEP_S, Format, Imported, Request
from flexray.traces.grid import MAX_WINDOWS, VALID, Grid
from flexray.traces.ordered import in_order

AHEAD = 4


@dataclass(frozen=True)
class Samples:
    """Samples of one chunk, ``width`` of them per row of the file.

    ``names[machine_n]`` are their machines, -1 where none is named.
    """

    chunk: Chunk
    names: Sequence[str]
    machine_n: IntArray
    time_n: FloatArray
    value_n: FloatArray
    row_n: IntArray
    width: int = 1

    def where(self, n: int) -> str:
        """Return the place of a sample."""
        name = self.names[self.machine_n[n]] if self.machine_n[n] >= 0 else "?"
        return f"{self.chunk.where(int(self.row_n[n]))}: machine '{name}'"

    def pick(self, chosen_n: BoolArray) -> Samples:
        """Return the chosen samples."""
        columns = ("machine_n", "time_n", "value_n", "row_n")
        return replace(self, **{name: getattr(self, name)[chosen_n] for name in columns})


class SampledFormat(Format):
    """Samples of machines, averaged by machine and window."""

    @abstractmethod
    def samples(self, path: Path, progress: Progress) -> Iterator[Samples]:
        """Read the samples of a file, chunk by chunk."""

    def default_step_s(self, request: Request) -> int:
        """Return the length of a window if ``--step`` is not given."""
        return DEFAULT_STEP_S

    def read(self, request: Request, counts: Counts) -> Imported:
        """Average the samples of each machine and window, file after file."""
        step_s = request.step_s or self.default_step_s(request)
        jobs = [partial(self.samples, path, request.progress) for path in request.files]
        grid, order = Grid(request.max_machines, counting=True), _Order()
        for samples in in_order(jobs, request.workers, AHEAD):
            self._add(samples, request, step_s, grid, order, counts)
        if grid.last < 0:
            raise _no_samples(request.files[0])
        counts.add("start_shift_s", grid.first * step_s)
        return Imported(step_s, _means(grid, counts))

    def _add(self, samples: Samples, request: Request, step_s: int, grid: Grid, order: _Order, counts: Counts) -> None:
        numbers = np.append(grid.numbers(samples.names), -1)
        named_n = samples.machine_n >= 0
        number_n = numbers[samples.machine_n]
        if (number_n < 0).any():
            if not named_n.all():
                counts.add("no_machine", int((~named_n).sum()), samples.chunk.where(int(samples.row_n[~named_n][0])))
            counts.add("beyond_limit", int((named_n & (number_n < 0)).sum()))
            samples = samples.pick(number_n >= 0)
            number_n = number_n[number_n >= 0]
        odd_n = ~((samples.time_n >= 0) & (samples.time_n < float(step_s) * (1 << 31)))
        if odd_n.any():
            n = int(np.flatnonzero(odd_n)[0])
            raise DataError(f"{samples.where(n)}: expected a time in seconds, got {samples.time_n[n]:g}")
        order.check(samples, number_n, counts)
        value_n, bad_n = judge(samples.value_n / self.divisor(request), request.policy, counts, samples.where)
        grid.add(number_n, (samples.time_n // step_s).astype(np.int64), value_n, bad_n)


class SampledTable(SampledFormat):
    """A table with a header: the default window is the step between most of its samples.

    Args:
        summary: One line for the help text.
        reader: Reads the samples of a file.
    """

    above_one = "refuse"

    def __init__(self, summary: str, reader: Callable[[Path, Progress], Iterator[Samples]]) -> None:
        self.summary, self._reader = summary, reader

    def samples(self, path: Path, progress: Progress) -> Iterator[Samples]:
        """Read the rows of a file."""
        return self._reader(path, progress)

    def default_step_s(self, request: Request) -> int:
        """Return the step between most samples of the first file's first chunk, in whole seconds."""
        path = request.files[0]
        first = next(self.samples(path, no_progress), None)
        if first is None:
            raise _no_samples(path)
        time_n = first.time_n[np.isfinite(first.time_n)]
        steps, often = np.unique(np.diff(np.unique(time_n)), return_counts=True)
        if not len(steps):
            raise DataError(f"{path}: expected at least two times to find the step; or give it with --step")
        step_s = float(steps[np.argmax(often)])
        if step_s != int(step_s) or step_s / MAX_WINDOWS > 1 << 20:
            raise DataError(f"{path}: times are {step_s:g} s apart; give a window of whole seconds with --step")
        return int(step_s)


class _Order:
    """Counts samples that come too late or twice; remembers each machine's last time."""

    def __init__(self) -> None:
        self._last = np.empty(0)

    def check(self, samples: Samples, number_n: IntArray, counts: Counts) -> None:
        """Compare samples with those before them in the file."""
        if not len(number_n):
            return
        if number_n.max() >= len(self._last):
            self._last = np.concatenate([self._last, np.full(number_n.max() + 1, -np.inf)])
        order_n = np.argsort(number_n, kind="stable")
        self._count("unsorted", np.less, order_n, samples, number_n, counts)
        order_n = np.lexsort((samples.time_n, number_n))
        self._count("overlapping", np.equal, order_n, samples, number_n, counts)
        last_n = np.diff(number_n[order_n], append=-1) != 0
        self._last[number_n[order_n][last_n]] = samples.time_n[order_n][last_n]

    def _count(
        self, kind: str, test: Callable[[FloatArray, FloatArray], BoolArray], order_n: IntArray, samples: Samples,
        number_n: IntArray, counts: Counts,
    ) -> None:  # fmt: skip
        time_n, own_n = samples.time_n[order_n], number_n[order_n]
        before_n = np.concatenate([time_n[:1], time_n[:-1]])
        first_n = np.diff(own_n, prepend=-1) != 0
        before_n[first_n] = self._last[own_n[first_n]]
        fault_n = test(time_n, before_n)
        if fault_n.any():
            counts.add(kind, -(-int(fault_n.sum()) // samples.width), samples.where(int(order_n[fault_n].min())))


def _no_samples(path: Path) -> DataError:
    return DataError(f"{path}: expected samples of machines, got none")


def _means(grid: Grid, counts: Counts) -> Iterator[tuple[str, FloatArray]]:
    """Yield machine and mean per window, NaN where there is none."""
    for name, value_w, mark_w in grid.rows():
        counts.add("gaps", int((mark_w == 0).sum()), f"machine '{name}'")
        yield name, np.where((mark_w & VALID) > 0, value_w, np.nan)
