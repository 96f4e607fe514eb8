"""Global rounds: Flex-VFL, its adaptive form, Sync-Min, Sync-Max and P-BCD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flexray.algorithms.base import Moment, RoundAlgorithm
from flexray.driver.base import GROUP, Driver, Pending
from flexray.driver.records import completed, new_record
from flexray.experiment import Experiment
from flexray.messages import EvalRecord, Order, Report, RoundRecord, Snapshot
from flexray.participants import blame
from flexray.runtime.base import Handle, Placement, Runtime


class RoundDriver(Driver):
    """Global rounds: one call per host and round, submitted ahead unless the algorithm reads reports."""

    _algorithm: RoundAlgorithm

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
            if (dummy := self._algorithm.preparation(self._moment(0))) is not None:
                self._pass(self._clock, dummy)
        embeddings, server = self._all_groups("embed_again", done) if done != limit else [], self._server("start")
        while done != limit and not self._stopping:
            now = self._moment(done)
            with blame("algo", f"round {done + 1}"):
                plan = self._algorithm.plan(now)
            start = self._clock.now
            end = start + plan.duration_units if plan.end_units is None else plan.end_units
            if not self._fits(end):
                break
            orders = self._orders(plan)
            self._pass(self._clock, plan)
            done += 1
            evaluated = self._is_eval(done)
            record = new_record(done, start, self._clock.now, plan, orders, now.utilization)
            embeddings, server = self._submit(record, orders, not evaluated and done != limit, embeddings, server)
            if evaluated:
                self._evaluate(done)
                embeddings = self._all_groups("embed", done) if done != limit else []
            self._save_if_due(done, limit)
            yield from self._read(0 if self._algorithm.needs_reports else self._lookahead_after(evaluated))
        yield from self._read_all(done, limit)

    def _moment(self, index: int) -> Moment:
        now = self._clock.now
        return Moment(index, now, self._x.speeds.utilization(index, now), self._reports)

    def _submit(
        self, record: RoundRecord, orders: list[Order], embed_next: bool, embeddings: list[Handle], server: Handle
    ) -> tuple[list[Handle], Handle]:
        """Start a round; return handles of the next embeddings and of the server's new parameters."""
        place, index = self._placement, record.round - 1
        replies = []
        for g, (host, group) in enumerate(zip(place.group_hosts, place.groups, strict=True)):
            args = [index, [_fields(orders[k]) for k in group], embed_next, g]
            others = (*embeddings[:g], *embeddings[g + 1 :])  # the group has its own
            replies.append(self._runtime.call(host, [GROUP, "train", args], server, *others))
        after = self._server("train", index, _fields(orders[-1]), after=embeddings)
        self._pending.append(Pending(record, (*replies, after)))
        return replies, after

    def _complete(self, record: RoundRecord, values: list[Any]) -> RoundRecord:
        reports = self._reports_of(values)
        self._reports = reports if self._algorithm.needs_reports else None
        self._note_divergence(record, reports)
        up, down = tuple(r.up_bytes for r in reports[:-1]), tuple(r.down_bytes for r in reports[:-1])
        return completed(record, reports[-1].loss, up, down)

    @staticmethod
    def _reports_of(values: list[Any]) -> tuple[Report, ...]:
        *groups, server = values
        return (*(report for group in groups for report in group.reports), server.report)


def _fields(order: Order) -> list[Any]:
    """Return an order without its class, which Ray would pickle."""
    return [order.tau, order.lr] if order.pace is None else [order.tau, order.lr, order.pace]
