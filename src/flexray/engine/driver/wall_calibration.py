"""A calibration: what participants, links and evaluations take in real seconds, on the processes of a run.

Nothing is learned: learning rates are so small that parameters stay as they are. Everything is measured several times,
one kind after another, so that a machine that gets busier or idler meanwhile changes all kinds alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from flexray.algorithms.base import RoundAlgorithm
from flexray.algorithms.vafl import VAFL
from flexray.core.messages import GroupReply, Order, Pace, Record, Report, RoundRecord, Snapshot, Started
from flexray.core.timings import Samples, Timings
from flexray.engine.driver.experiment import Experiment, WallClock
from flexray.engine.driver.labels import Labels
from flexray.engine.driver.rounds import RoundDriver
from flexray.engine.driver.seam import Placement, Runtime, remote
from flexray.engine.driver.snapshots import Saves
from flexray.engine.driver.wall_events import OwnTurn, WallEventDriver
from flexray.engine.parties.labels import LabelHolder
from flexray.engine.parties.pace import Clock, Timer
from flexray.engine.parties.timed import TimedGroup, TimedServer

REPETITIONS = 8
"""How often each kind is measured; those that are quick, several times as often."""
WARM_UP = 3
"""Rounds and turns before, which do not count: the first calls of a process are slow."""
LONGEST_S = 0.25
"""Seconds of local iterations in a round, at most."""
STILL = 1e-12
"""Factor of learning rates."""


class CalibratedTurns(WallEventDriver):
    """Turns of VAFL as a run takes them, of some parties and without evaluations.

    Args:
        experiment: The run that is to be predicted.
        runtime: Where the participants live.
        placement: The host of every participant.
        algorithm: VAFL, with rates so small that nothing changes.
        groups: The parties.
        server: The server, whose table is filled.
        parties: The parties (0-based) that take turns.
    """

    def __init__(
        self, experiment: Experiment, runtime: Runtime, placement: Placement, algorithm: VAFL,
        groups: Sequence[TimedGroup], server: TimedServer, parties: Sequence[int],
    ) -> None:  # fmt: skip
        super().__init__(experiment, runtime, placement, algorithm)
        self._groups, self._server, self._active = list(groups), server, parties
        self._labels = Labels(experiment, runtime, placement, server)
        self._least, self._most_s = 0, 0.0
        self.computed_s: list[float] = []
        """What this thread had computed after each turn."""

    def take(self, least: int, most_s: float) -> Iterator[RoundRecord]:
        """Yield turns until ``most_s`` have passed and ``least`` turns are over, and wait until none is under way."""
        self._least, self._most_s = least, most_s
        yield from (record for record in self._steps(None) if isinstance(record, RoundRecord))
        self._runtime.get([turn.promise for turn in self._running.values()])

    def _fits(self, end_units: float) -> bool:
        return end_units < self._most_s or sum(self._turn) < self._least

    def _end_turn(self, number: int, end: float, party: int, turn: OwnTurn) -> None:
        super()._end_turn(number, end, party, turn)
        self.computed_s.append(Clock().computed())

    def _fill_table(self) -> list[None]:
        return []

    def _is_eval(self, done: int, end_units: float) -> bool:
        return False

    def _evaluate(self, done: int) -> None:
        self._evaluated = done


class CalibrationDriver(RoundDriver):
    """Takes rounds and turns that change nothing, and times them.

    Args:
        experiment: The run that is to be predicted.
        runtime: Where the participants live.
        placement: The host of every participant.
        algorithm: Its algorithm.
        wall: How long to measure.
    """

    _lookahead, _stacks = 0, False
    _groups: list[TimedGroup]  # type: ignore[assignment]
    _server: TimedServer

    def __init__(
        self, experiment: Experiment, runtime: Runtime, placement: Placement, algorithm: RoundAlgorithm, wall: WallClock
    ) -> None:
        super().__init__(experiment, runtime, placement, algorithm)
        self._classes = TimedGroup, TimedServer, LabelHolder
        self._groups = [remote(runtime, host, TimedGroup) for host in placement.group_hosts]
        self._server = remote(runtime, placement.server_host, TimedServer)
        self._labels = Labels(experiment, runtime, placement, self._server)
        self._budget_s = wall.calibrates_s or 0.0
        self._timer = Timer()
        self._index = 0
        self._embeddings: list[GroupReply] = []
        self._reply: Any = None
        self._up: tuple[int, ...] = ()
        self._bytes: tuple[int, ...] = ()
        self._found: defaultdict[tuple[str, int], list[float]] = defaultdict(list)

    def run(self, saves: Saves | None = None, since: Snapshot | None = None) -> Iterator[Record]:
        """Measure, and yield :class:`flexray.core.timings.Timings` after the first record."""
        self._start()
        yield Started(self._x.names, None, self._epoch_rounds)
        yield cast("Record", self._measured())  # no observer of a run sees it

    def _measured(self) -> Timings:
        places = range(len(self._x.names))
        hosts = self._hosts()
        self._embeddings, self._reply = self._embed(0), self._server.start()
        self._runtime.get([*self._embeddings, self._reply])
        for _ in range(WARM_UP):
            self._round(places, min(LONGEST_S, self._budget_s / 100))
            self._round(places)
            self._note_embeddings()
        self._found.clear()
        self._timer = Timer()
        for number in range(REPETITIONS):
            if self._interrupted or (number > 1 and self._timer.now() > self._budget_s):
                break
            self._note_rounds(hosts)
            self._note_embeddings()
            self._note_links()
        self._note_turns()
        self._note_evaluations()
        return self._timings(hosts)

    # What is measured -------------------------------------------------------------------------------------------

    def _note_rounds(self, hosts: Sequence[Sequence[int]]) -> None:
        """Take rounds in which one process after another computes alone, then all together."""
        everybody = [k for host in hosts for k in host]
        seconds = min(LONGEST_S, self._budget_s / 2 / REPETITIONS / (len(everybody) + max(map(len, hosts))))
        for host in hosts:
            self._note("alone", host, self._round(host, seconds)[1])
            self._note("first", host, self._round(host)[1])
        self._note("together", everybody, self._round(everybody, seconds)[1])
        self._round(everybody)  # after rests
        for _ in range(REPETITIONS):
            self._found["rounds", 0].append(self._round(everybody)[0])

    def _note(self, kind: str, places: Sequence[int], reports: Sequence[Report]) -> None:
        for k in places:
            if reports[k].unit_s > 0:
                self._found[kind, k].append(reports[k].unit_s)

    def _round(self, places: Sequence[int], seconds: float = 0.0) -> tuple[float, tuple[Report, ...]]:
        """Take a round in which these compute, one local iteration or as many as fit; return its length and reports."""
        pace = Pace(1.0, seconds, fill=seconds > 0)
        system = self._algorithm.system
        orders = [Order(int(k in places and not system.frozen[k]), lr * STILL, pace) for k, lr in enumerate(system.lr)]
        timer = Timer()
        self._embeddings, self._reply = self._submit(self._index, orders, [], self._embeddings, self._reply)
        reports = self._reports_of([*self._runtime.get(self._embeddings), *self._runtime.get([self._reply])])
        took_s = timer.now()
        self._index += 1
        self._bytes = tuple(report.up_bytes + report.down_bytes for report in reports[:-1])
        self._up = tuple(report.up_bytes for report in reports[:-1])
        return took_s, reports

    def _note_embeddings(self) -> None:
        for group, place in zip(self._groups, self._placement.groups, strict=True):
            for k, seconds in zip(place, self._runtime.get([group.embedding_s(self._index)])[0], strict=True):
                self._found["embedding", k].append(seconds)

    def _note_links(self) -> None:
        """Send every party a message from the server, and receive its answer: empty, and as in a round."""
        for group, place in zip(self._groups, self._placement.groups, strict=True):
            for k in place:
                up = self._up[k]
                for kind, size in (("small", 0), ("round_message", self._bytes[k] - up)):
                    message = self._server.message(size)
                    self._runtime.get([message])
                    for _ in range(3):
                        timer = Timer()
                        self._runtime.get([group.answer(up if size else 0, message)])
                        self._found[kind, k].append(timer.now())

    def _note_turns(self) -> None:
        """Let the parties take turns of VAFL: one alone after another, then all, as in a run."""
        x = self._x
        rows = x.shared.outline.sizes["train"]
        widths = self._runtime.get([group.widths() for group in self._groups])
        dtype = np.dtype(x.shared.dtype)
        blank = [GroupReply(tuple(np.zeros((rows, width), dtype) for width in own)) for own in widths]
        self._runtime.get(self._at_server(lambda server: server.fill(*blank)))
        parties = range(len(x.parties))
        for k in parties:
            self._found["turn", k] += self._taken([k], self._budget_s / 5 / len(parties))[0]
            self._found["answer", 0] += self._runtime.get([self._server.answer_s()])[0][0][WARM_UP:]
        computed_s = self._taken(parties, self._budget_s / 5)[1]
        between = self._runtime.get([self._server.answer_s()])[0][1]
        hosts = self._placement.group_hosts
        if self._placement.server_host not in hosts:  # else it does other things between
            self._found["between", 0] += between[WARM_UP * len(parties) :]
        if len(computed_s) > 1 and len({self._placement.server_host, *hosts}) > 1:  # else it is the driver's as well
            self._found["driver", 0].append((computed_s[-1] - computed_s[0]) / (len(computed_s) - 1))

    def _taken(self, parties: Sequence[int], most_s: float) -> tuple[list[float], list[float]]:
        """Return how long turns took, and what the driver had computed after each, without the first ones."""
        system = self._algorithm.system
        still = replace(
            system, lr=tuple(lr * STILL for lr in system.lr), party_comm_units=(0.0,) * len(self._x.parties)
        )
        algorithm = VAFL(still)
        x = replace(self._x, network=None, algorithm=algorithm)  # links are measured apart
        turns = CalibratedTurns(x, self._runtime, self._placement, algorithm, self._groups, self._server, parties)
        took_s = []
        for record in turns.take((WARM_UP + 2) * len(parties), most_s):
            took_s.append(record.duration)
            if self._interrupted:
                turns.stop()
        return took_s[WARM_UP * len(parties) :], turns.computed_s[WARM_UP * len(parties) :]

    def _note_evaluations(self) -> None:
        """Evaluate twice: the first one may read the samples."""
        for _ in range(2):
            timer = Timer()
            self._evaluate(0)
            for pending in self._pending:
                self._runtime.get(pending.promises)
            self._pending.clear()
            self._found["evaluation", 0].append(timer.now())

    # What came out ----------------------------------------------------------------------------------------------

    def _hosts(self) -> list[list[int]]:
        """Return the participants of every process."""
        hosts: defaultdict[int, list[int]] = defaultdict(list)
        for host, group in zip(self._placement.group_hosts, self._placement.groups, strict=True):
            hosts[host] += group
        hosts[self._placement.server_host].append(len(self._x.parties))
        return list(hosts.values())

    def _timings(self, hosts: Sequence[Sequence[int]]) -> Timings:
        groups = self._runtime.get([group.machine() for group in self._groups])
        machines = [groups[g] for g, group in enumerate(self._placement.groups) for _ in group]
        process = {k: number for number, host in enumerate(hosts) for k in host}

        def by_participant(kind: str) -> tuple[Samples, ...]:
            return tuple(tuple(self._found[kind, k]) for k in range(len(self._x.names)))

        return Timings(
            names=self._x.names,
            process=tuple(process[k] for k in range(len(process))),
            machine=(*machines, *self._runtime.get(self._at_server(lambda _: self._server.machine()))),
            alone=by_participant("alone"),
            first=by_participant("first"),
            together=by_participant("together"),
            embedding=by_participant("embedding"),
            rounds=tuple(self._found["rounds", 0]),
            turn=by_participant("turn"),
            answer=tuple(self._found["answer", 0]),
            small=by_participant("small"),
            round_message=by_participant("round_message"),
            round_bytes=self._bytes,
            turn_bytes=tuple(2 * up for up in self._up),
            evaluation=tuple(self._found["evaluation", 0]),
            between=tuple(self._found["between", 0]),
            driver=tuple(self._found["driver", 0]),
        )
