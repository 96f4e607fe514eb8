"""Sums per machine and window in bounded memory: only tiles that hold samples exist.

Shapes: n = values added at once, w = windows from the first to the last that holds a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.traces.files import BoolArray, FloatArray, IntArray

S = TypeVar("S", bound=np.generic)

HEIGHT, WIDTH = 4096, 512
"""Machines and windows of a tile; memory is taken only for the rows of it that hold values."""
MAX_WINDOWS = 1 << 20
"""Ten years of five minutes: a longer span is a mistake in a time or its unit."""
VALID, BAD = 1, 2


class Grid:
    """Sums, and optionally counts, per machine and window.

    Args:
        max_machines: Machines beyond these, in order of appearance, are left out.
        counting: Keep the number of values per window too, for means.
    """

    def __init__(self, max_machines: int, counting: bool) -> None:
        self.max_machines, self._counting = max_machines, counting
        self.names: list[str] = []
        self.first, self.last = 1 << 62, -1
        self._numbers: dict[object, int] = {}
        self._sums: dict[tuple[int, int], FloatArray] = {}
        self._counts: dict[tuple[int, int], npt.NDArray[np.uint32]] = {}
        self._marks: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}

    def numbers(self, names: Sequence[object]) -> IntArray:
        """Return the machines' numbers in order of appearance; -1 beyond ``max_machines``."""
        found = list(map(self._numbers.get, names))
        if None in found:
            for name in names:
                if name not in self._numbers and len(self.names) < self.max_machines:
                    self._numbers[name] = len(self.names)
                    self.names.append(str(name))
            found = [self._numbers.get(name, -1) for name in names]
        return np.array(found, np.int64)

    def add(self, machine_n: IntArray, window_n: IntArray, value_n: FloatArray, bad_n: BoolArray) -> None:
        """Add values to their windows; a bad value sets a mark only."""
        if not len(machine_n):
            return
        self.first, self.last = min(self.first, int(window_n.min())), max(self.last, int(window_n.max()))
        if self.last - self.first >= MAX_WINDOWS:
            raise DataError(f"times from window {self.first} to {self.last}: expected at most {MAX_WINDOWS} windows")
        tile_n = (machine_n // HEIGHT << 32) + window_n // WIDTH
        place_n = machine_n % HEIGHT * WIDTH + window_n % WIDTH
        value_n = np.where(bad_n, 0.0, value_n) if bad_n.any() else value_n
        for tile in np.unique(tile_n).tolist():
            here_n = np.flatnonzero(tile_n == tile)
            self._add((tile >> 32, tile & 0xFFFFFFFF), place_n[here_n], value_n[here_n], bad_n[here_n])

    def _add(self, key: tuple[int, int], place_n: IntArray, value_n: FloatArray, bad_n: BoolArray) -> None:
        if key not in self._sums:
            self._sums[key] = np.zeros(HEIGHT * WIDTH)
            self._marks[key] = np.zeros(HEIGHT * WIDTH, np.uint8)
            if self._counting:
                self._counts[key] = np.zeros(HEIGHT * WIDTH, np.uint32)
        np.add.at(self._sums[key], place_n, value_n)
        marks = self._marks[key]
        if bad_n.any():
            marks[place_n[bad_n]] |= BAD
            place_n = place_n[~bad_n]
        marks[place_n] |= VALID
        if self._counting:
            np.add.at(self._counts[key], place_n, np.uint32(1))

    def rows(self) -> Iterator[tuple[str, FloatArray, npt.NDArray[np.uint8]]]:
        """Yield per machine, by name, its sums (means, if counting) and marks: 0, or VALID and BAD combined."""
        for m in sorted(range(len(self.names)), key=lambda m: self.names[m]):
            sum_w, mark_w = self._line(self._sums, m), self._line(self._marks, m)
            if self._counting:
                sum_w = sum_w / np.maximum(self._line(self._counts, m), 1)
            yield self.names[m], sum_w, mark_w

    def touched(self) -> BoolArray:
        """Return for each window whether any machine has a value there, good or bad."""
        touched_w = np.zeros(self.last - self.first + 1, bool)
        for (_, block), marks in self._marks.items():
            here, there = self._common(block)
            touched_w[here] |= marks.reshape(HEIGHT, WIDTH).max(axis=0)[there] > 0
        return touched_w

    def _line(self, tiles: dict[tuple[int, int], npt.NDArray[S]], m: int) -> npt.NDArray[S]:
        line_w = np.zeros_like(next(iter(tiles.values())), shape=self.last - self.first + 1)
        for block in range(self.first // WIDTH, self.last // WIDTH + 1):
            tile = tiles.get((m // HEIGHT, block))
            if tile is not None:
                here, there = self._common(block)
                line_w[here] = tile.reshape(HEIGHT, WIDTH)[m % HEIGHT][there]
        return line_w

    def _common(self, block: int) -> tuple[slice, slice]:
        """Return the windows that all windows and a block of tiles have in common, as places in either."""
        low, high = max(self.first, block * WIDTH), min(self.last + 1, (block + 1) * WIDTH)
        return slice(low - self.first, high - self.first), slice(low - block * WIDTH, high - block * WIDTH)
