"""Messages that share links: max-min fair shares, event by event.

A message flows as fast as its own link allows, unless a link that it shares with others is full. The capacity of a full
link is divided fairly: no message gets more while one that crosses the same link gets less and could use it (max-min
fairness; progressive filling, Bertsekas and Gallager, Data Networks, section 6.5.2). Shares change when a message
begins or ends, and at no other time.

Shapes: f = flows, one message each; l = shared links.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

FULL = 1 - 1e-12
"""A flow that is allowed this share of what a link has left for it is held up by the link, but for rounding."""


def max_min_rates(most_f: FloatArray, crosses_fl: BoolArray, capacity_l: FloatArray) -> FloatArray:
    """Return the rate of every flow.

    Args:
        most_f: The largest rate of each flow, that of its own link; may be infinite.
        crosses_fl: Which shared links it crosses.
        capacity_l: Capacity of each; may be infinite.

    Example:
        >>> crosses = np.array([[True], [True], [True]])
        >>> max_min_rates(np.array([1.0, np.inf, np.inf]), crosses, np.array([9.0])).tolist()
        [1.0, 4.0, 4.0]
    """
    rate_f = np.zeros(len(most_f))
    open_f = np.ones(len(most_f), dtype=bool)
    left_l = capacity_l.astype(float)  # a copy
    while open_f.any():
        open_fl = crosses_fl & open_f[:, None]
        count_l = open_fl.sum(axis=0)
        fair_l = np.where(count_l > 0, np.maximum(left_l, 0.0) / np.maximum(count_l, 1), np.inf)
        fair_f = np.where(open_fl, fair_l, np.inf).min(axis=1, initial=np.inf)
        slow_f = open_f & (most_f <= fair_f)  # less than a fair share is enough for these
        if not slow_f.any():
            slow_f = open_f & (fair_f * FULL <= fair_l.min())
        rate_f[slow_f] = np.minimum(most_f, fair_f)[slow_f]
        taken_l = np.where(crosses_fl & slow_f[:, None], rate_f[:, None], 0.0).sum(axis=0)
        np.subtract(left_l, taken_l, out=left_l, where=np.isfinite(left_l))
        open_f &= ~slow_f
    return rate_f


@dataclass(frozen=True)
class Flow:
    """A message on its way.

    Args:
        begin: When its first byte leaves.
        left: Bytes that have not arrived.
        most: Bytes per unit of time on its own link; may be infinite.
        crosses: Places of the shared links that it crosses.
    """

    begin: float
    left: float
    most: float = math.inf
    crosses: tuple[int, ...] = ()


class Traffic:
    """Flows that share links, one at each place at a time.

    Args:
        begin_f: When the first byte of each leaves; infinite where there is none.
        left_f: Bytes that have not arrived.
        most_f: Bytes per unit of time on each one's own link; may be infinite.
        crosses_fl: The shared links that each crosses.
        capacities: Bytes per unit of time of these.
    """

    def __init__(
        self,
        begin_f: FloatArray,
        left_f: FloatArray,
        most_f: FloatArray,
        crosses_fl: BoolArray,
        capacities: Sequence[float],
    ) -> None:
        self.now = 0.0
        self._begin_f, self._left_f, self._most_f = (np.array(a, dtype=float) for a in (begin_f, left_f, most_f))
        self._crosses_fl, self._capacity_l = crosses_fl.copy(), np.array(capacities, dtype=float)

    @classmethod
    def idle(cls, places: int, capacities: Sequence[float], now: float = 0.0) -> Traffic:
        """Return free places from the time ``now`` on."""
        none_f = np.zeros(places)
        traffic = cls(none_f + math.inf, none_f, none_f, np.zeros((places, len(capacities)), dtype=bool), capacities)
        traffic.now = now
        return traffic

    def send(self, place: int, flow: Flow) -> None:
        """Put a flow at a place; it begins now at the earliest."""
        self._begin_f[place], self._left_f[place], self._most_f[place] = max(flow.begin, self.now), flow.left, flow.most
        self._crosses_fl[place] = False
        self._crosses_fl[place, list(flow.crosses)] = True

    def flow(self, place: int) -> Flow:
        """Return what is left of the flow at a place; one that begins never if there is none."""
        crosses = tuple(int(k) for k in np.flatnonzero(self._crosses_fl[place]))
        return Flow(float(self._begin_f[place]), float(self._left_f[place]), float(self._most_f[place]), crosses)

    @property
    def is_busy(self) -> bool:
        """Whether a flow is on its way or will be."""
        return bool(np.isfinite(self._begin_f).any())

    @property
    def next(self) -> float:
        """The time at which the next flow begins or ends; infinite where there is none."""
        return self._rates()[0]

    def step(self) -> list[int]:
        """Let time pass until :attr:`next`; return the places of flows that end then, which are free."""
        time, places, rate_f, end_f = self._rates()
        ends_f = end_f <= time
        self._left_f[places[~ends_f]] -= rate_f[~ends_f] * (time - self.now)
        self._begin_f[places[ends_f]] = math.inf
        self.now = time
        return [int(place) for place in places[ends_f]]

    def _rates(self) -> tuple[float, npt.NDArray[np.intp], FloatArray, FloatArray]:
        """Return the next time, and place, rate and end of the flows that have begun."""
        places = np.flatnonzero(self._begin_f <= self.now)
        rate_f = max_min_rates(self._most_f[places], self._crosses_fl[places], self._capacity_l)
        needs_f = np.zeros(len(places))  # of no length, or as quick as none: ends at once
        left_f = self._left_f[places]
        np.divide(left_f, rate_f, out=needs_f, where=(left_f > 0) & np.isfinite(rate_f))
        begins = float(self._begin_f[self._begin_f > self.now].min(initial=math.inf))
        end_f = self.now + needs_f
        return min(begins, float(end_f.min(initial=math.inf))), places, rate_f, end_f


def end_times(
    begin_f: FloatArray, size_f: FloatArray, most_f: FloatArray, crosses_fl: BoolArray, capacities: Sequence[float]
) -> FloatArray:
    """Return when each flow ends, if there are no others; the arguments are those of :class:`Traffic`.

    Example:
        Two messages of 100 bytes share 10 bytes per unit, and the second begins 5 units later: it gets all once the
        first has ended.

        >>> shared = np.array([[True], [True]])
        >>> begin, size, most = (np.array(pair) for pair in ((0.0, 5.0), (100.0, 100.0), (np.inf, np.inf)))
        >>> end_times(begin, size, most, shared, [10.0]).tolist()
        [15.0, 20.0]
    """
    traffic, end_f = Traffic(begin_f, size_f, most_f, crosses_fl, capacities), np.zeros(len(begin_f))
    while traffic.is_busy:
        places = traffic.step()
        end_f[places] = traffic.now
    return end_f
