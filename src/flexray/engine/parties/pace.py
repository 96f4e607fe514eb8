"""Real seconds: the only module that reads the clock or waits, for ``clock=wall``; the virtual clock uses none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from flexray.core.messages import Order, Pace, Report
from flexray.engine.parties.devices import synchronize
from flexray.engine.parties.trainer import Gradients, Trainer

GRAIN_S = 0.05
"""Least seconds of computing between rests: a busy machine's scheduler favours processes that rest more often."""


class Clock:
    """The machine's clock; tests put another in its place."""

    def now(self) -> float:
        """Return seconds since some moment."""
        synchronize()
        return time.perf_counter()

    def computed(self) -> float:
        """Return seconds in which this thread computed: no waiting, neither for others nor for a busy core."""
        return time.thread_time()

    def sleep(self, seconds: float) -> None:
        """Let seconds pass."""
        if seconds > 0:
            time.sleep(seconds)


class Throttle:
    """Lets a participant take local iterations at a share of its own rate.

    After ``busy`` seconds of computing it rests until ``busy / share`` have passed, in the middle of a round, too; what
    a rest lasted is measured, so that neither short iterations nor late wake-ups shift the share. Seconds are those of
    the machine's clock, not of the processor: a busy machine slows a throttled participant as much as another.

    What a round takes beside local iterations comes on top of the timeout, at any share. Where a round is as long as
    the iterations are, since one alone is longer than the timeout or there is none, it is stretched as they are: else
    a participant at share s would have more than s of the rounds, and so of the iterations, that it has unthrottled.

    Args:
        pace: How.
        clock: Tells and passes the time.
    """

    def __init__(self, pace: Pace, clock: Clock | None = None) -> None:
        self._pace = pace
        self._clock = clock or Clock()
        self._busy_s = 0.0
        self._first_s = 0.0
        self._rested_s = 0.0
        self.span_s = 0.0
        self.taken = 0

    @property
    def unit_s(self) -> float:
        """Seconds of computing per iteration; the first one, which warms up, counts only if it is alone."""
        if self.taken > 1:
            return (self._busy_s - self._first_s) / (self.taken - 1)
        return self._busy_s

    def iterations(self, tau: int) -> Iterator[int]:
        """Yield once for each local iteration, then wait for the end of the round's computing."""
        begin = self._clock.now()
        while self._goes_on(tau, begin):
            started = self._clock.now()
            yield self.taken
            took_s = self._clock.now() - started
            self._busy_s += took_s
            self._first_s = self._first_s or took_s
            self.taken += 1
            if self._owed_s(self._busy_s - GRAIN_S) >= 0:
                self._rest()
        self._rest()
        self._clock.sleep(begin + self._least_s() - self._clock.now())
        self.span_s = self._clock.now() - begin

    def _least_s(self) -> float:
        """Return how long iterations and rests last at least.

        Unthrottled, ``seconds`` of iterations come with one overhead; so those that were taken stand for the part
        ``busy / seconds`` of it, and for all of it where they are longer than that.
        """
        pace = self._pace
        part = min(1.0, self._busy_s / pace.seconds) if pace.seconds > 0 else 1.0
        return max(pace.seconds, (self._busy_s + pace.overhead_s * part) / pace.share - pace.overhead_s)

    def _goes_on(self, tau: int, begin: float) -> bool:
        """Whether to take another iteration: the first always, then while they are wanted and fit."""
        if self.taken == 0:
            return tau > 0
        if not self._pace.fill:
            return self.taken < tau
        passed = self._clock.now() - begin + max(0.0, self._owed_s(self._busy_s))
        return passed + self._busy_s / self.taken / self._pace.share <= self._pace.seconds * (1 + 1e-9)

    def _owed_s(self, busy_s: float) -> float:
        """Return the seconds of rest that so much computing asks for, without those that were had."""
        share = self._pace.share
        return busy_s * (1 - share) / share - self._rested_s

    def _rest(self) -> None:
        before = self._clock.now()
        self._clock.sleep(self._owed_s(self._busy_s))
        self._rested_s += self._clock.now() - before


def paced(trainer: Trainer, pace: Pace) -> Callable[[Gradients, Order], Report]:
    """Return what runs the local iterations of a round in real time, in place of :meth:`Trainer.run`."""
    run = trainer.rehearse if pace.rehearsal else trainer.run
    return lambda gradients, order: run(gradients, order, Throttle(pace))


class Timer:
    """Seconds since it was made, without those in which it was paused.

    Args:
        clock: Tells and passes the time.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._zero = self._clock.now()
        self._paused_at: float | None = None

    def now(self) -> float:
        """Return the seconds that passed."""
        return (self._clock.now() if self._paused_at is None else self._paused_at) - self._zero

    def pause(self) -> None:
        """Stop counting."""
        if self._paused_at is None:
            self._paused_at = self._clock.now()

    def go_on(self) -> None:
        """Count again."""
        if self._paused_at is not None:
            self._zero += self._clock.now() - self._paused_at
            self._paused_at = None

    def sleep(self, seconds: float) -> None:
        """Let seconds pass."""
        self._clock.sleep(seconds)
