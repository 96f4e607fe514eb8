"""Whether a run's limits leave room for a round: checked before it starts, and again once message sizes are known."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from decimal import ROUND_CEILING, Context

from flexray.algorithms.base import EventAlgorithm
from flexray.algorithms.checked import driver_units, plan_dummy, plan_round, plan_turn
from flexray.core.clock import Stopwatch
from flexray.core.errors import ConfigError
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.transfers import Transfers, TurnUnderWay


def check_limits(x: Experiment) -> None:
    """Refuse ``epochs`` and ``max_time`` that end before the first round (VAFL: the first party's turn) has.

    Raises:
        ConfigError: So it is; or the first round cannot be planned.
    """
    step = "turn" if x.algorithm.takes_turns else "round"
    per_epoch = x.steps_per_epoch
    if x.limits.epochs is not None and x.limits.in_rounds(per_epoch) == 0:
        raise ConfigError(
            f"epochs: expected at least {1 / per_epoch:g} (one {step} of {per_epoch}), got {x.limits.epochs:g}"
        )
    check_max_time(x)


def check_max_time(x: Experiment) -> None:
    """Refuse a ``max_time`` that ends before the first round (VAFL: the first party's turn) has.

    Where bytes take time the driver checks again, once it knows how long messages are.

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
    known = {id(x.algorithm.system): x.algorithm.system}  # never changes
    algorithm = copy.deepcopy(x.algorithm, known)  # some remember what they planned
    if isinstance(algorithm, EventAlgorithm):
        ends = list(_first_turns(x, algorithm))
        yield from ends if x.wall is None else ()
        return
    dummy = plan_dummy(algorithm, x.moment(0, 0.0, everybody=True)) if x.wall is None else None
    plan = plan_round(algorithm, x.moment(0, 0.0))
    if x.wall is None or plan.pace != "slowest":  # how long the slowest really takes is measured later
        yield plan.end(dummy.end(Stopwatch()) if dummy else Stopwatch()).now


def _first_turns(x: Experiment, algorithm: EventAlgorithm) -> Iterator[float]:
    """Yield when the first turn of each party will end; on shared links, that of the first to arrive."""
    moments = {party: x.turn(party, 0, 0.0) for party in x.feature_parties}
    busy = driver_units(algorithm)
    plans = {party: plan_turn(algorithm, party, x.names[party], now) for party, now in moments.items()}
    if x.network is None or not x.network.shared or any(plan.end_units is not None for plan in plans.values()):
        yield from (plan.end(Stopwatch()).now + busy + plan.server_units for plan in plans.values())
        return
    transfers, arrived = Transfers(x.network), list[TurnUnderWay]()
    for party, plan in plans.items():
        transfers.begin(party, 0, 0.0, plan, moments[party].utilization)
    while not arrived:
        arrived = transfers.step()
    yield from (turn.plan.duration_units + busy + turn.plan.server_units for turn in arrived)
