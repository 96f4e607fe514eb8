"""Turns of single parties in real seconds (``clock=wall``): VAFL, truly asynchronous.

A party computes, rests as its speed says, and its message travels; the first to arrive is answered first. It rests for
all that its turn took so far, the server's answer included, so that its turns come at its share of the rate. Rests and
messages of many parties overlap, wherever they live; in one process computing itself does not. Evaluations happen
outside of the time that is counted, while nobody computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from flexray.algorithms.base import EventAlgorithm, Plan
from flexray.algorithms.checked import plan_turn
from flexray.core.clock import EventQueue
from flexray.core.messages import EvalRecord, RoundRecord, Snapshot, Turn
from flexray.engine.driver.events import EventDriver
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.records import new_record
from flexray.engine.driver.seam import Placement, Runtime
from flexray.engine.driver.wall_rounds import relative_times, shares
from flexray.engine.parties.pace import Timer


@dataclass
class OwnTurn:
    """A party's turn that is under way.

    Args:
        start: When it began, in seconds.
        plan: What happens at its end.
        share: Share of its own rate that the party is left with.
        promise: Its computing.
        ends: The event (1-based) that is over when the computing is; 0 before a party's first.
        taken_s: What answer and computing took, and the rest that follows.
    """

    start: float
    plan: Plan
    share: float
    promise: Turn
    ends: int
    taken_s: float = 0.0


class WallEventDriver(EventDriver):
    """VAFL in real time."""

    def __init__(
        self, experiment: Experiment, runtime: Runtime, placement: Placement, algorithm: EventAlgorithm
    ) -> None:
        super().__init__(experiment, runtime, placement, algorithm)
        self._timer = Timer()
        self._slower = relative_times(experiment)
        self._running: dict[int, OwnTurn] = {}
        self._due: EventQueue[tuple[int, OwnTurn]] = EventQueue()
        self._over: set[int] = set()
        self._active: Sequence[int] = experiment.feature_parties

    def _steps(self, limit: int | None) -> Iterator[RoundRecord | EvalRecord | Snapshot]:
        self._evaluate(0)
        filled = self._fill_table()
        yield from self._read(0)
        self._runtime.get(filled)
        self._timer = Timer()
        for party in self._active:
            self._start_turn(party, self._first_turn(party), 0.0, 0)
        done = 0
        while done != limit and not self._stopping:
            end, party, turn = self._next_due()
            if not self._fits(end):
                break
            done += 1
            self._end_turn(done, end, party, turn)
            if done == limit or self._is_eval(done, end):
                while self._running:
                    self._collect(None)
                self._timer.pause()
                self._evaluate(done)
                yield from self._read(0)
                self._timer.go_on()
            yield from self._read(self._unread())
        yield from self._read_all(done, limit)

    def _start_turn(self, party: int, promise: Turn, start: float, ends: int) -> None:
        now = self._x.turn(party, self._turn[party], start)
        plan = plan_turn(self._algorithm, party, self._x.names[party], now)
        share = shares(now.utilization, self._slower)[party]
        self._running[party] = OwnTurn(start, replace(plan, utilization=now.utilization), share, promise, ends)

    def _next_due(self) -> tuple[float, int, OwnTurn]:
        """Wait until a party's message has arrived; return the time, the party and the turn that it ends."""
        while True:
            wait_s = max(0.0, self._due.next[0] - self._timer.now()) if len(self._due) else None
            if self._running and self._collect(wait_s):
                continue
            if wait_s and not self._running:
                self._timer.sleep(wait_s)
            if len(self._due) and self._due.next[0] <= self._timer.now():
                _, (party, turn) = self._due.pop()
                return self._timer.now(), party, turn

    def _collect(self, wait_s: float | None) -> bool:
        """Note when the next computing has ended, if that happens within ``wait_s``, and when its message arrives."""
        parties = list(self._running)
        place = self._runtime.first([self._running[party].promise for party in parties], wait_s)
        if place is None:
            return False
        party = parties[place]
        turn = self._running.pop(party)
        self._runtime.get([turn.promise])
        turn.taken_s = (self._timer.now() - turn.start) / turn.share
        self._due.push(turn.start + turn.taken_s + turn.plan.comm_units, party, (party, turn))
        self._over.add(turn.ends)
        return True

    def _end_turn(self, number: int, end: float, party: int, turn: OwnTurn) -> None:
        """Start the server's answer, the party's step and its next turn."""
        self._clock.now = end
        times = tuple(turn.taken_s if k == party else t for k, t in enumerate(turn.plan.unit_times))
        plan = replace(turn.plan, duration_units=end - turn.start, unit_times=times)
        orders = self._orders(plan, number - 1)
        self._computed[party] += min(self._algorithm.system.base_units)  # decays count the turns of the quickest party
        record = new_record(number, turn.start, end, plan, orders, (), party)
        self._start_turn(party, self._submit(record, party, orders, turn.promise), end, number)

    def _unread(self) -> int:
        """Return how many of the oldest results are not there yet: a slow party must not hold up the others."""
        for place, pending in enumerate(self._pending):
            if isinstance(pending.record, RoundRecord) and pending.record.round not in self._over:
                return len(self._pending) - place
        return 0
