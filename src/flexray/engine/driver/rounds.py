"""Global rounds: Flex-VFL, its adaptive form, Sync-Min, Sync-Max and P-BCD.

The parties that miss a round are known when the round before is planned, so that its batch is embedded in the same
call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from flexray.algorithms.base import Moment, Plan, RoundAlgorithm
from flexray.algorithms.checked import plan_dummy, plan_round
from flexray.core.clock import Stopwatch
from flexray.core.messages import EvalRecord, GroupReply, Order, Report, RoundRecord, ServerReply, Snapshot
from flexray.engine.driver.base import Driver
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.records import Pending, completed, new_record
from flexray.engine.driver.seam import Placement, Runtime

if TYPE_CHECKING:
    from flexray.engine.parties.selecting import SelectingServer
    from flexray.engine.parties.selecting_group import SelectingGroup


class RoundDriver(Driver):
    """Global rounds: one call per host and round, submitted ahead unless the algorithm reads reports."""

    _algorithm: RoundAlgorithm
    _stacks = True
    _lookahead = 2  # while one is computed the next is there already; more only fill the driver's memory

    def __init__(
        self, experiment: Experiment, runtime: Runtime, placement: Placement, algorithm: RoundAlgorithm
    ) -> None:
        super().__init__(experiment, runtime, placement)
        self._algorithm = algorithm
        self._next = Moment(-1, 0.0, ())
        self._judged: list[Report] = []

    def _steps(self, limit: int | None) -> Iterator[RoundRecord | EvalRecord | Snapshot]:
        done = self._done
        if not done:
            self._evaluate(0)
            yield from self._read(self._lookahead)
            self._prepare()
        embeddings = self._embed(done, again=True) if done != limit else []
        server = self._server.start()
        while done != limit and not self._stopping:
            now = self._moment(done)
            plan = plan_round(self._algorithm, now)
            start, end = self._clock.now, plan.end(self._clock)
            if not self._fits(end.now):
                break
            orders = self._orders_at(now, plan)
            self._advance(plan, end)
            done += 1
            evaluated = self._is_eval(done, end.now)
            absent = None if self._x.absences is None else tuple(sorted(now.absent))
            links = now.party_comm_units
            record = new_record(done, start, end.now, plan, orders, now.utilization, absent=absent, links=links)
            absent_next = None if done == limit else self._absent(done)
            self._await(embeddings, server)
            ahead = None if evaluated else absent_next
            embeddings, server = self._submit(done - 1, orders, ahead, embeddings, server)
            sends = self._x.sends(now.round)
            self._pending.append(Pending(record, (*embeddings, server, *self._judged), sends))
            if evaluated:
                yield from self._read(self._lookahead)
                self._evaluate(done)
                yield from self._read(self._lookahead_after(evaluated))
                goes_on = absent_next is not None and not self._stopping  # else running statistics would follow it
                embeddings = self._embed(done) if goes_on else []
            self._save_if_due(done, limit)
            yield from self._read(0 if self._algorithm.needs_reports else self._lookahead_after(evaluated))
        yield from self._read_all(done, limit)

    def _prepare(self) -> None:
        """Store first embeddings, if they are needed, and let the time of a dummy round pass."""
        self._keep_first()
        now = self._x.moment(0, self._clock.now, everybody=True)
        if (dummy := plan_dummy(self._algorithm, now)) is not None:
            self._clock = dummy.end(self._clock)

    def _embed(self, index: int, again: bool = False) -> list[GroupReply]:
        """Start embedding the batch of a round; ``again``: take the embeddings that a snapshot had, if any."""
        absent = self._absent(index)
        return [group.embed_again(index, absent) if again else group.embed(index, absent) for group in self._groups]

    def _moment(self, index: int) -> Moment:
        """Return what is known when a round starts now; it is asked for when the round before is planned, too."""
        now = self._clock.now
        if (self._next.round, self._next.sim_time) != (index, now):
            self._next = self._x.moment(index, now)
        return replace(self._next, reports=self._reports)

    def _absent(self, index: int) -> list[int]:
        """Return the parties that miss a round that starts now."""
        return sorted(self._moment(index).absent) if self._x.absences is not None else []

    def _orders_at(self, now: Moment, plan: Plan) -> list[Order]:
        return self._orders(plan, now.round)

    def _advance(self, plan: Plan, end: Stopwatch) -> None:
        """Let the time of a round pass."""
        self._clock = end
        self._computed[0] += plan.duration_units - plan.comm_units

    def _await(self, embeddings: list[GroupReply], server: ServerReply) -> None:
        """Wait for what a round starts with, if its time is measured."""

    def _submit(
        self,
        index: int,
        orders: list[Order],
        absent_next: list[int] | None,
        embeddings: list[GroupReply],
        server: ServerReply,
    ) -> tuple[list[GroupReply], ServerReply]:
        """Start a round; return promises of the next embeddings and of the server's new parameters.

        Args:
            index: 0-based round.
            orders: Everybody's orders.
            absent_next: The parties that miss the next round; None: do not embed its batch.
            embeddings: Promises of this round's embeddings.
            server: Promise of the server's parameters at its start.
        """
        own = [[orders[k] for k in group] for group in self._placement.groups]
        phase, self._judged = self._algorithm.phase(index), []
        if phase in ("joint", "components"):
            replies = self._train(index, own, absent_next, embeddings, server)
        elif phase == "features":
            replies = self._drop_features(index, own, absent_next)
        else:
            replies = [
                group.learn(index, orders_g, absent_next, phase == "handover")
                for group, orders_g in zip(self._groups, own, strict=True)
            ]
        if phase == "components":
            dropping = cast("SelectingServer", self._server)
            return replies, dropping.drop(index, orders[-1], self._algorithm.penalty(index), *embeddings)
        return replies, self._server.train(index, orders[-1], *embeddings)

    def _train(
        self,
        index: int,
        own: list[list[Order]],
        absent_next: list[int] | None,
        embeddings: list[GroupReply],
        server: ServerReply,
    ) -> list[GroupReply]:
        """Start a round in which parties train on the loss; ``own``: the orders of each group."""
        if self._x.shared.labels_at != "all":
            computed, self._judged = self._labels.gradients(index, embeddings)
            return [
                group.reuse(index, orders_g, absent_next, self._server.gradients_of(members, computed))
                for group, members, orders_g in zip(self._groups, self._placement.groups, own, strict=True)
            ]
        return [  # a group has its own embeddings
            group.train(index, own[g], absent_next, g, server, *embeddings[:g], *embeddings[g + 1 :])
            for g, group in enumerate(self._groups)
        ]

    def _drop_features(self, index: int, own: list[list[Order]], absent_next: list[int] | None) -> list[GroupReply]:
        penalty, server = self._algorithm.penalty(index), cast("SelectingServer", self._server)
        return [
            cast("SelectingGroup", group).drop(index, orders_g, absent_next, penalty, server.kept_of(members))
            for group, members, orders_g in zip(self._groups, self._placement.groups, own, strict=True)
        ]

    def _complete(self, record: RoundRecord, values: list[Any]) -> RoundRecord:
        reports = self._reports_of(values)
        self._reports = self._last_reports(record, reports) if self._algorithm.needs_reports else None
        self._watch.reports(record.round, reports)
        up, down = (tuple(map(attrgetter(column), reports[:-1])) for column in ("up_bytes", "down_bytes"))
        return completed(record, self._labels.loss(reports), up, down)

    def _last_reports(self, record: RoundRecord, reports: tuple[Report, ...]) -> tuple[Report, ...]:
        """Return everybody's report on the last round that it took part in."""
        before, away = self._reports, frozenset(record.absent or ())
        if before is None or not away:
            return reports
        return tuple(before[k] if k in away else report for k, report in enumerate(reports))

    def _reports_of(self, values: list[Any]) -> tuple[Report, ...]:
        """Return the reports in the replies of the groups, the server and, if there is one, the label holder."""
        groups, (server, *judged) = values[: len(self._groups)], values[len(self._groups) :]
        reports = (*chain.from_iterable(group.reports for group in groups), server.report)
        return self._labels.noted(reports, judged)
