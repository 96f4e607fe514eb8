"""Records of rounds, before and after their reports are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from flexray.algorithms.base import Plan
from flexray.core.messages import Order, RoundRecord


@dataclass(frozen=True)
class Pending:
    """A submitted round, evaluation or snapshot, before its results are read.

    Args:
        record: What is known of it.
        promises: Its results.
        sends: How often messages are sent, if some get lost: up and down, per party.
    """

    record: Any
    promises: tuple[Any, ...]
    sends: tuple[tuple[int, int], ...] | None = None


def new_record(
    number: int,
    start: float,
    end: float,
    plan: Plan,
    orders: list[Order],
    utilization: tuple[float, ...],
    party: int | None = None,
    absent: tuple[int, ...] | None = None,
    waited: float = 0.0,
    links: tuple[float, ...] | None = None,
) -> RoundRecord:
    """Return the record of a submitted round, before its reports are known."""
    return RoundRecord(
        round=number,
        start_units=start,
        sim_time=end,
        duration=plan.duration_units,
        tau=plan.tau,
        lr=tuple(map(attrgetter("lr"), orders)),
        utilization=plan.utilization or utilization,
        comm_units=plan.comm_units,
        unit_times=plan.unit_times,
        train_loss=float("nan"),
        sent_bytes=0,
        up_bytes=(),
        down_bytes=(),
        party=party,
        absent=absent,
        server_units=plan.server_units,
        waited_units=waited,
        party_comm_units=links,
        timeout_units=plan.timeout_units,
        staleness=plan.staleness,
    )


def completed(
    record: RoundRecord,
    loss: float | None,
    up: tuple[int, ...],
    down: tuple[int, ...],
    staleness: tuple[float, ...] | None = None,
) -> RoundRecord:
    """Return the record, completed from its reports."""
    value = float("nan") if loss is None else loss
    sent, stale = sum(up) + sum(down), record.staleness if staleness is None else staleness
    return replace(record, train_loss=value, sent_bytes=sent, up_bytes=up, down_bytes=down, staleness=stale)


def sent_again(record: RoundRecord, sends: Sequence[tuple[int, int]]) -> RoundRecord:
    """Return the record with bytes that count as often as messages were sent: up and down, per party."""
    up = tuple(size * times for size, (times, _) in zip(record.up_bytes, sends, strict=True))
    down = tuple(size * times for size, (_, times) in zip(record.down_bytes, sends, strict=True))
    return replace(record, sent_bytes=sum(up) + sum(down), up_bytes=up, down_bytes=down)
