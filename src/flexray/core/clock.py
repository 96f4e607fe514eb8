"""The virtual clock: a heap of events and times that do not drift.

The unit is one local iteration of the fastest participant.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
ORDER_DIGITS = 12
"""Times that agree to this many significant digits are equal: 7 * (1 + 1/5) and 8.4 tie, early in a run or late."""


class EventQueue(Generic[T]):
    """Events in order of time, then priority, then of being pushed.

    Args:
        entries: Those of a saved queue.
        pushed: How many events it was given.
    """

    def __init__(self, entries: Iterable[tuple[float, int, int, float, T]] = (), pushed: int = 0) -> None:
        self._heap = sorted(entries, key=lambda entry: entry[:3])
        self._pushed = pushed

    @property
    def entries(self) -> list[tuple[float, int, int, float, T]]:
        """All scheduled events, to save the queue."""
        return list(self._heap)

    @property
    def pushed(self) -> int:
        """How many events were pushed so far."""
        return self._pushed

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, time: float, priority: int, event: T) -> None:
        """Schedule ``event``; of two at the same time the lower ``priority`` comes first."""
        heapq.heappush(self._heap, (float(f"{time:.{ORDER_DIGITS}g}"), priority, self._pushed, time, event))
        self._pushed += 1

    @property
    def next(self) -> tuple[float, T]:
        """The next event's time and itself."""
        return self._heap[0][3:]

    def pop(self) -> tuple[float, T]:
        """Remove the next event and return its time and itself."""
        return heapq.heappop(self._heap)[3:]


@dataclass
class Stopwatch:
    """Adds up durations without drift: n equal ones after another end at exactly start + n * duration."""

    now: float = 0.0
    _anchor: float = field(default=0.0, repr=False)
    _duration: float = field(default=0.0, repr=False)
    _count: int = field(default=0, repr=False)

    def advance(self, duration: float) -> float:
        """Let ``duration`` units pass and return the new time."""
        if duration != self._duration or self._count == 0:
            self._anchor, self._duration, self._count = self.now, duration, 0
        self._count += 1
        self.now = self._anchor + self._count * duration
        return self.now

    def move_to(self, time: float) -> float:
        """Let it be ``time``."""
        self.now, self._count = time, 0
        return self.now
