"""Whether a run's limits leave room for a round: checked before it starts, and again once message sizes are known."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from decimal import ROUND_CEILING, Context

from flexray.algorithms.base import EventAlgorithm, Moment
from flexray.algorithms.checked import plan_dummy, plan_round, plan_turn
from flexray.core.clock import Stopwatch
from flexray.core.errors import ConfigError
from flexray.engine.driver.experiment import Experiment


def check_limits(x: Experiment) -> None:
    """Refuse ``epochs`` and ``max_time`` that end before the first round (VAFL: the first party's turn) has.

    Raises:
        ConfigError: So it is; or the first round cannot be planned.
    """
    step = "turn" if x.algorithm.takes_turns else "round"
    per_epoch = x.shared.batches().per_epoch * (len(x.parties) if x.algorithm.takes_turns else 1)
    if x.limits.epochs is not None and x.limits.in_rounds(per_epoch) == 0:
        raise ConfigError(
            f"epochs: expected at least {1 / per_epoch:g} (one {step} of {per_epoch}), got {x.limits.epochs:g}"
        )
    check_max_time(x)


def check_max_time(x: Experiment) -> None:
    """Refuse a ``max_time`` that ends before the first round (VAFL: the first party's turn) has.

    With ``network.bandwidth`` the driver checks again, once the algorithm knows how long messages take.

    Raises:
        ConfigError: So it is; or the first round cannot be planned.
    """
    ends = list(_first_ends(x))
    if ends and not min(ends) and x.limits.rounds is x.limits.epochs is None:
        raise ConfigError(
            "max_time: the first round takes no time, so the run would never end; expected rounds or epochs"
        )
    if x.limits.max_time is not None and ends and not x.limits.has_time_for(min(ends)):
        step = "turn" if x.algorithm.takes_turns else "round"
        raise ConfigError(
            f"max_time: expected at least {_enough(min(ends))} {x.time_unit} (one {step}), got {x.limits.max_time:g}"
        )


def _enough(end_units: float) -> str:
    """Return in six digits a limit that has room for a round that ends then: rounded up, but for rounding errors."""
    rounded = Context(prec=6, rounding=ROUND_CEILING).create_decimal(end_units * (1 - 1e-12))
    return f"{float(rounded):g}"


def _first_ends(x: Experiment) -> Iterator[float]:
    """Yield when the first round, or the first turn of each party, will end, as far as that is known beforehand."""
    algorithm = copy.deepcopy(x.algorithm)  # some remember what they planned
    utilization = x.speeds.utilization(0, 0.0)
    now = Moment(0, 0.0, utilization, absent=x.absent(0, utilization))
    if isinstance(algorithm, EventAlgorithm):
        for party in range(len(x.parties)):
            plan = plan_turn(algorithm, party, x.names[party], now)
            if x.wall is None:
                yield plan.end(Stopwatch()).now + plan.server_units
        return
    dummy = plan_dummy(algorithm, now) if x.wall is None else None
    plan = plan_round(algorithm, now)
    if x.wall is None or plan.pace != "slowest":  # how long the slowest really takes is measured later
        yield plan.end(dummy.end(Stopwatch()) if dummy else Stopwatch()).now
