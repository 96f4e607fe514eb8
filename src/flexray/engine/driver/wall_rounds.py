"""Global rounds in real seconds (``clock=wall``).

Nothing is submitted ahead: a round is planned when the one before has ended, since its tau and its time are known only
then. Evaluations, and the embeddings that follow them, happen outside of the time that is counted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import median
from typing import Any

from flexray.algorithms.adaptive import static_rates
from flexray.algorithms.base import Moment, Plan, RoundAlgorithm
from flexray.algorithms.checked import plan_dummy
from flexray.core.clock import Stopwatch
from flexray.core.messages import GroupReply, Order, Pace, Report, RoundRecord, ServerReply
from flexray.engine.driver.experiment import Experiment, WallClock
from flexray.engine.driver.rounds import RoundDriver
from flexray.engine.driver.seam import Placement, Runtime
from flexray.engine.parties.pace import Timer

DUMMY_S, ALL_DUMMIES_S = 0.05, 0.4
"""How long participants compute in a dummy round, where an iteration is no longer; when no other is begun."""


class WallRoundDriver(RoundDriver):
    """Rounds in real time; participants are throttled and report how far they came."""

    _lookahead, _stacks = 0, False

    def __init__(
        self,
        experiment: Experiment,
        runtime: Runtime,
        placement: Placement,
        algorithm: RoundAlgorithm,
        wall: WallClock,
    ) -> None:
        super().__init__(experiment, runtime, placement, algorithm)
        self._wall = wall
        self._timer = Timer()
        self._slower = relative_times(experiment)
        self._shares: tuple[float, ...] = ()
        self._overhead_s = 0.0

    def _prepare(self) -> None:
        self._measure_base_times()
        self._take_dummy_round()
        self._keep_first()

    def _advance(self, plan: Plan, end: Stopwatch) -> None:
        """Do nothing: the time is known when the round has ended."""

    def _orders_at(self, now: Moment, plan: Plan) -> list[Order]:
        return self._paced(super()._orders_at(now, plan), plan, now)

    def _await(self, embeddings: list[GroupReply], server: ServerReply) -> None:
        self._runtime.get([*embeddings, server])
        self._timer = Timer()

    def _paced(self, orders: list[Order], plan: Plan, now: Moment, rehearsal: bool = False) -> list[Order]:
        """Return the orders with their pace in real time."""
        self._shares = shares(now.utilization, self._slower)
        seconds = 0.0 if plan.pace == "slowest" else plan.duration_units - plan.comm_units
        fill = plan.pace == "fill"
        return [
            order._replace(pace=Pace(share, seconds, fill, rehearsal, self._overhead_s))
            for order, share in zip(orders, self._shares, strict=True)
        ]

    def _complete(self, record: RoundRecord, values: list[Any]) -> RoundRecord:
        """Wait for the slowest link, then read the clock."""
        reports = self._reports_of(values)
        self._overhead_s = max(0.0, self._timer.now() - self._longest_span(reports))
        self._timer.sleep(record.comm_units)
        duration = self._timer.now()
        record = super()._complete(record, values)
        self._computed[0] += duration - record.comm_units
        unit_times = tuple(r.unit_s / share for r, share in zip(reports, self._shares, strict=True))
        return replace(
            record,
            sim_time=self._clock.advance(duration),
            duration=duration,
            tau=tuple(report.tau for report in reports),
            unit_times=unit_times,
        )

    def _longest_span(self, reports: tuple[Report, ...]) -> float:
        """Return the seconds of local iterations and rests in the process that had most of them."""
        place = self._placement
        spans: defaultdict[int, float] = defaultdict(float)
        for host, group in zip(place.group_hosts, place.groups, strict=True):
            spans[host] += sum(reports[k].span_s for k in group)
        spans[place.server_host] += reports[-1].span_s
        return max(spans.values())

    def _measure_base_times(self) -> None:
        """Time dummy rounds and give the algorithm the median seconds of a local iteration.

        A single round is cold at first and easily disturbed, and tau of a whole run may hang on it (Sync-Max).
        """
        system = self._algorithm.system
        pace = Pace(1.0, DUMMY_S, fill=True, rehearsal=True)
        orders = [Order(0 if frozen else 1, lr, pace) for frozen, lr in zip(system.frozen, system.lr, strict=True)]
        found: list[list[float]] = []
        timer = Timer()
        while not found or timer.now() < ALL_DUMMIES_S:
            reports, _ = self._rehearse(orders)
            found.append([report.unit_s for report in reports])
        system = replace(system, base_units=self._base_times([median(own) for own in zip(*found, strict=True)]))
        if self._wall.static_rates:
            system = replace(system, lr=static_rates(system))
        self._algorithm = self._algorithm.for_system(system)

    def _take_dummy_round(self) -> None:
        """Run the dummy round if the algorithm asks for one; its time counts, and its reports are used."""
        now = self._x.moment(0, self._clock.now, everybody=True)
        plan = plan_dummy(self._algorithm, now)
        if plan is not None:
            orders = [Order(tau, lr) for tau, lr in zip(plan.tau, plan.lr, strict=True)]
            reports, seconds = self._rehearse(self._paced(orders, plan, now, rehearsal=True))
            self._timer.sleep(plan.comm_units)
            self._clock.advance(seconds + plan.comm_units)
            self._reports = reports if self._algorithm.needs_reports else None

    def _rehearse(self, orders: list[Order]) -> tuple[tuple[Report, ...], float]:
        """Run a first round, put everything back, and return its reports and seconds."""
        states = iter(self._runtime.get([group.get_states() for group in self._groups]))
        head = self._runtime.get([self._server.get_state()])[0]
        timer = Timer()
        replies, after = self._submit(0, orders, None, self._embed(0), self._server.start())
        reports = self._reports_of([*self._runtime.get(replies), *self._runtime.get([after])])
        seconds = timer.now()
        put_back = self._everywhere(lambda group: group.set_states(next(states)))
        self._runtime.get([*put_back, *self._at_server(lambda server: server.set_state(head))])
        return reports, seconds

    def _base_times(self, seconds: list[float]) -> tuple[float, ...]:
        """Return seconds per local iteration; for those who take none, the slowest one's."""
        slowest = max(seconds) or 1.0
        return tuple((own or slowest) * slow for own, slow in zip(seconds, self._slower, strict=True))


def relative_times(experiment: Experiment) -> tuple[float, ...]:
    """Return how many times slower than the fastest each participant is made, at equal utilization."""
    base = experiment.speeds.base_units
    return tuple(b / min(base) for b in base)


def shares(utilization: tuple[float, ...], slower: tuple[float, ...]) -> tuple[float, ...]:
    """Return the share of its own rate that each participant is left with."""
    return tuple((1.0 - c) / slow for c, slow in zip(utilization, slower, strict=True))
