"""Turns of single parties: VAFL.

A party whose turn has ended begins the next one at once or, where the algorithm bounds how far it may be ahead, when
the slowest has caught up. Its embeddings are the same by then, since its model changes in its own turns alone; so they
are computed ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from flexray.algorithms.base import EventAlgorithm, Plan
from flexray.algorithms.checked import driver_units, plan_turn
from flexray.core.clock import EventQueue, Stopwatch
from flexray.core.messages import EvalRecord, Order, Report, RoundRecord, Snapshot, Turn
from flexray.core.network import Network
from flexray.engine.driver.base import CODEC, Driver
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.records import Pending, completed, new_record
from flexray.engine.driver.seam import Placement, Runtime
from flexray.engine.driver.transfers import SavedTurn, Transfers
from flexray.engine.parties.group import PartyGroup

TOGETHER = 1e-12
"""Times that differ by less than this share differ by rounding alone."""


class EventDriver(Driver):
    """VAFL: a heap of messages that arrive; the server's and the party's step of a turn are two calls."""

    _algorithm: EventAlgorithm
    _lookahead = 8  # several parties compute at once

    def __init__(
        self, experiment: Experiment, runtime: Runtime, placement: Placement, algorithm: EventAlgorithm
    ) -> None:
        super().__init__(experiment, runtime, placement)
        self._algorithm = algorithm
        self._turn = [0] * len(experiment.parties)
        self._watches = [Stopwatch() for _ in experiment.parties]
        self._handling, self._serving = Stopwatch(), Stopwatch()
        self._queued = [0.0] * len(experiment.parties)
        self._computed = [0.0] * len(experiment.parties)
        self._idle = set(experiment.feature_parties)
        self._waited = [0.0] * len(experiment.parties)
        self._queue: EventQueue[tuple[int, float, Plan, tuple[float, ...]]] = EventQueue()
        self._transfers: Transfers | None = None
        self._place = {k: place for group in placement.groups for place, k in enumerate(group)}
        self._host = {k: g for g, group in enumerate(placement.groups) for k in group}

    def _connect_links(self, network: Network, widths: tuple[int, ...]) -> Network:
        network = super()._connect_links(network, widths)
        self._transfers = Transfers(network) if network.shared else None
        return network

    def _steps(self, limit: int | None) -> Iterator[RoundRecord | EvalRecord | Snapshot]:
        done, parties = self._done, self._x.feature_parties
        if done:
            turns = {k: self._group_of(k).turn_again(self._place[k], self._turn[k]) for k in parties}
        else:
            self._evaluate(0)
            self._fill_table()
            turns = {party: self._first_turn(party) for party in parties}
            self._begin_turns()
        while done != limit and not self._stopping:
            self._settle()
            arrival, (party, start, plan, utilization) = self._queue.next
            handled = _after(self._handling, arrival, driver_units(self._algorithm))
            served = _after(self._serving, handled.now, plan.server_units)
            if not self._fits(served.now):
                break
            self._queue.pop()
            plan = self._answered(party, start, plan, handled, served)
            self._clock.now = served.now
            orders = self._orders(plan, done)
            self._computed[party] += plan.unit_times[party]
            waited = self._waited[party]
            record = new_record(done + 1, start, served.now, plan, orders, utilization, party, waited=waited)
            turns[party] = self._submit(record, party, orders, turns[party])
            self._idle.add(party)
            self._begin_turns()
            done += 1
            evaluated = self._is_eval(done, served.now)
            if evaluated:
                self._evaluate(done)
            self._save_if_due(done, limit)
            yield from self._read(self._lookahead_after(evaluated))
        yield from self._read_all(done, limit)

    def _settle(self) -> None:
        """Queue the turns on shared links that arrive first, when it is known that no later one slows them down."""
        transfers = self._transfers
        while transfers is not None and transfers.parties:
            if len(self._queue) and transfers.next > self._queue.next[0] * (1 + TOGETHER):
                return
            for turn in transfers.step():
                self._watches[turn.party].move_to(transfers.now)
                self._push(turn.party, transfers.now, turn.start, turn.plan, turn.utilization)

    def _push(self, party: int, arrival: float, start: float, plan: Plan, utilization: tuple[float, ...]) -> None:
        """Schedule the arrival of a party's turn."""
        priority = self._algorithm.priority(party, self._turn[party])
        self._queue.push(arrival, priority, (party, start, plan, utilization))

    def _answered(self, party: int, start: float, plan: Plan, handled: Stopwatch, served: Stopwatch) -> Plan:
        """Note when the driver and the server are free again after a turn; return its plan with its whole length."""
        if plan.server_units:
            self._serving = served
        if driver_units(self._algorithm):
            self._handling = handled
            self._queued[party] = max(0.0, served.now - handled.now - plan.server_units)
        elif not plan.server_units:
            return plan
        self._watches[party].move_to(served.now)
        return replace(plan, duration_units=served.now - start)

    def _state(self) -> dict[str, Any]:
        queue = (self._queue.entries, self._queue.pushed)
        state = {"turn": self._turn, "watches": self._watches, "queue": queue, "serving": self._serving}
        if self._algorithm.max_ahead is not None:
            state["waited"] = self._waited
        if driver_units(self._algorithm):
            state["driver"] = (self._handling, self._queued)
        if self._transfers is not None:
            state["transfers"] = self._transfers.save()
        return {**super()._state(), **{key: CODEC.encode(value, {}) for key, value in state.items()}}

    def _kinds(self) -> dict[str, Any]:
        event = tuple[int, float, Plan, tuple[float, ...]]
        queue = tuple[list[tuple[float, float, int, float, event]], int]
        kinds = {"turn": list[int], "watches": list[Stopwatch], "queue": queue, "serving": Stopwatch}
        if self._algorithm.max_ahead is not None:
            kinds["waited"] = list[float]
        if driver_units(self._algorithm):
            kinds["driver"] = tuple[Stopwatch, list[float]]
        if self._transfers is not None:
            kinds["transfers"] = tuple[float, list[SavedTurn]]
        return {**super()._kinds(), **kinds}

    def _take_over(self, state: dict[str, Any]) -> None:
        turns = [entry[-1] for entry in state["queue"][0]] + state.get("transfers", (0.0, []))[1]
        waiting, plans = sorted(turn[0] for turn in turns), [turn[2] for turn in turns]
        begun = self._may_begin(self._x.feature_parties, state["turn"])
        if waiting != begun or len(state["watches"]) != len(self._turn):
            raise ValueError(f"queue: expected a turn of each of {len(begun)} parties, got those of {waiting}")
        if any({len(plan.tau), len(plan.lr)} != {len(self._x.names)} for plan in plans):
            raise ValueError(f"queue: expected plans for {len(self._x.names)} participants")
        self._turn, self._watches, self._serving = state["turn"], state["watches"], state["serving"]
        self._queue = EventQueue(*state["queue"])
        self._idle, self._waited = self._idle.difference(begun), state.get("waited", self._waited)
        self._handling, self._queued = state.get("driver", (self._handling, self._queued))
        if len(self._queued) != len(self._turn):
            raise ValueError(f"driver: expected {len(self._turn)} waits, got {len(self._queued)}")
        if self._transfers is not None:
            self._transfers.load(state["transfers"], self._turn)

    def _may_begin(self, parties: Iterable[int], turns: Sequence[int]) -> list[int]:
        """Return those of ``parties``, in order, that are not so far ahead of the slowest that they have to wait."""
        most = self._algorithm.max_ahead
        if most is None:
            return sorted(parties)
        slowest = min(turns[party] for party in self._x.feature_parties)
        return sorted(party for party in parties if turns[party] - slowest <= most)

    def _begin_turns(self) -> None:
        """Let the parties that are between two turns begin the next one, except those that have to wait."""
        for party in self._may_begin(self._idle, self._turn):
            self._idle.remove(party)
            self._begin_turn(party)

    def _begin_turn(self, party: int) -> None:
        watch = self._watches[party]
        self._waited[party] = max(0.0, self._clock.now - watch.now)  # times that tie may differ by rounding
        if self._waited[party]:
            watch.move_to(self._clock.now)
        start = watch.now
        now = self._x.turn(party, self._turn[party], start)
        plan = plan_turn(self._algorithm, party, self._x.names[party], now, self._queued[party])
        if self._transfers is not None and plan.end_units is None:
            self._transfers.begin(party, self._turn[party], start, plan, now.utilization)
        else:
            self._watches[party] = arrival = plan.end(watch)
            self._push(party, arrival.now, start, plan, now.utilization)

    def _fill_table(self) -> list[None]:
        """Start sending all embeddings of the training samples to the server."""
        self._keep_first()
        embeddings = [group.embed_split("train", "train") for group in self._groups]
        return self._at_server(lambda server: server.fill(*embeddings))

    def _group_of(self, party: int) -> PartyGroup:
        return self._groups[self._host[party]]

    def _first_turn(self, party: int) -> Turn:
        return self._group_of(party).first_turn(self._place[party])

    def _submit(self, record: RoundRecord, party: int, orders: list[Order], own: Turn) -> Turn:
        """Start both steps of a turn; return the promise of the party's next embeddings."""
        turn = self._turn[party]
        self._turn[party] += 1
        answer, judged = self._labels.answer(record.round - 1, party, turn, orders[-1], own)
        followed = self._group_of(party).follow(self._place[party], turn, orders[party], answer)
        self._pending.append(Pending(record, (answer, followed, *judged), self._x.sends(turn, party)))
        return followed

    def _complete(self, record: RoundRecord, values: list[Any]) -> RoundRecord:
        answer, followed, *judged = values
        party, count = record.party or 0, len(self._x.parties)
        own = followed.report._replace(up_bytes=answer.report.up_bytes, down_bytes=answer.report.down_bytes)
        reports = self._labels.noted(_spread(own, answer.report, party, count), judged)
        self._watch.reports(record.round, reports)
        up, down = tuple(r.up_bytes for r in reports[:-1]), tuple(r.down_bytes for r in reports[:-1])
        return completed(record, self._labels.loss(reports), up, down, answer.staleness)


def _after(busy: Stopwatch, arrival: float, units: float) -> Stopwatch:
    """Return the time of one that takes turns in order, once it was free for one that arrived and took its time."""
    watch = copy(busy)
    if watch.now < arrival or not units:
        watch.move_to(arrival)
    if units:
        watch.advance(units)
    return watch


def _spread(report: Report, server: Report, party: int, count: int) -> tuple[Report, ...]:
    """Return one report per participant; all but the party and the server did nothing."""
    idle = Report(0, 1.0)
    return (*(report if k == party else idle for k in range(count)), server)
