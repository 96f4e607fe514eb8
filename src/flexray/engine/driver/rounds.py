"""Global rounds: Flex-VFL, its adaptive form, Sync-Min, Sync-Max and P-BCD.

Who misses a round is known when the one before was planned, so that its batch is embedded in the same call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flexray.algorithms.base import Moment, RoundAlgorithm
from flexray.algorithms.checked import plan_dummy, plan_round
from flexray.core.messages import EvalRecord, Order, Report, RoundRecord, Snapshot
from flexray.engine.driver.base import GROUP, Driver, Pending
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.records import completed, new_record
from flexray.engine.driver.seam import Handle, Placement, Runtime


class RoundDriver(Driver):
    """Global rounds: one call per host and round, submitted ahead unless the algorithm reads reports."""

    _algorithm: RoundAlgorithm
    _lookahead = 2  # while one is computed the next is there already; more only fill the driver's memory

    def __init__(
        self, experiment: Experiment, runtime: Runtime, placement: Placement, algorithm: RoundAlgorithm
    ) -> None:
        super().__init__(experiment, runtime, placement)
        self._algorithm = algorithm

    def _turns_per_batch(self) -> int:
        return 1

    def _steps(self, limit: int | None) -> Iterator[RoundRecord | EvalRecord | Snapshot]:
        done = self._done
        if not done:
            self._evaluate(0)
            self._keep_first_embeddings()
            if (dummy := plan_dummy(self._algorithm, self._moment(0))) is not None:
                self._pass(self._clock, dummy)
        embeddings = self._all_groups("embed_again", done, self._absent(done)) if done != limit else []
        server = self._server("start")
        while done != limit and not self._stopping:
            now = self._moment(done)
            plan = plan_round(self._algorithm, now)
            start = self._clock.now
            if not self._fits(plan.end(start)):
                break
            orders = self._orders(plan, done)
            self._pass(self._clock, plan)
            self._computed[0] += plan.duration_units - plan.comm_units
            done += 1
            evaluated = self._is_eval(done, self._clock.now)
            absent = None if self._x.absences is None else tuple(sorted(now.absent))
            record = new_record(done, start, self._clock.now, plan, orders, now.utilization, absent=absent)
            absent_next = None if done == limit else self._absent(done)
            embeddings, server = self._submit(record, orders, None if evaluated else absent_next, embeddings, server)
            if evaluated:
                self._evaluate(done)
                yield from self._read(self._lookahead_after(evaluated))
                goes_on = absent_next is not None and not self._stopping  # else running statistics would follow it
                embeddings = self._all_groups("embed", done, absent_next) if goes_on else []
            self._save_if_due(done, limit)
            yield from self._read(0 if self._algorithm.needs_reports else self._lookahead_after(evaluated))
        yield from self._read_all(done, limit)

    def _moment(self, index: int) -> Moment:
        now = self._clock.now
        utilization = self._x.speeds.utilization(index, now)
        return Moment(index, now, utilization, self._reports, self._x.absent(index, utilization))

    def _absent(self, index: int) -> list[int]:
        """Return the parties that miss a round that starts now."""
        return sorted(self._moment(index).absent) if self._x.absences is not None else []

    def _keep_first_embeddings(self) -> None:
        """Have what parties that may miss rounds send at first of every sample, to stand in for them."""
        if self._x.absences is not None:
            self._runtime.get(self._all_groups("keep_first"))

    def _submit(
        self,
        record: RoundRecord,
        orders: list[Order],
        absent_next: list[int] | None,
        embeddings: list[Handle],
        server: Handle,
    ) -> tuple[list[Handle], Handle]:
        """Start a round; return handles of the next embeddings and of the server's new parameters.

        Args:
            record: The round, before its reports.
            orders: Everybody's orders.
            absent_next: Who misses the next round; None: do not embed its batch.
            embeddings: Handles of this round's embeddings.
            server: Handle of the server's parameters at its start.
        """
        place, index = self._placement, record.round - 1
        shares_labels = self._x.shared.labels_at == "all"
        gradients = None if shares_labels else self._server("gradients", index, after=embeddings)
        replies = []
        for g, (host, group) in enumerate(zip(place.group_hosts, place.groups, strict=True)):
            args = [index, [_fields(orders[k]) for k in group], absent_next]
            others = (*embeddings[:g], *embeddings[g + 1 :])  # the group has its own
            if shares_labels:
                replies.append(self._runtime.call(host, [GROUP, "train", [*args, g]], server, *others))
            else:
                replies.append(self._runtime.call(host, [GROUP, "reuse", args], gradients))
        after = self._server("train", index, _fields(orders[-1]), after=embeddings)
        self._pending.append(Pending(record, (*replies, after)))
        return replies, after

    def _complete(self, record: RoundRecord, values: list[Any]) -> RoundRecord:
        reports = self._reports_of(values)
        self._reports = self._last_reports(record, reports) if self._algorithm.needs_reports else None
        self._watch.reports(record.round, reports)
        up, down = tuple(r.up_bytes for r in reports[:-1]), tuple(r.down_bytes for r in reports[:-1])
        return completed(record, reports[-1].loss, up, down)

    def _last_reports(self, record: RoundRecord, reports: tuple[Report, ...]) -> tuple[Report, ...]:
        """Return everybody's report on the last round that it took part in."""
        before, away = self._reports, frozenset(record.absent or ())
        return reports if before is None else tuple(before[k] if k in away else r for k, r in enumerate(reports))

    @staticmethod
    def _reports_of(values: list[Any]) -> tuple[Report, ...]:
        *groups, server = values
        return (*(report for group in groups for report in group.reports), server.report)


def _fields(order: Order) -> list[Any]:
    """Return an order without its class, which Ray would pickle."""
    return [order.tau, order.lr] if order.pace is None else [order.tau, order.lr, order.pace]
