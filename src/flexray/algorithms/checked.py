"""Asks an algorithm, perhaps a user's own, for a plan, and refuses a plan that cannot be carried out."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, get_args

from flexray.algorithms import timeouts
from flexray.algorithms.base import EventAlgorithm, Moment, Plan, RealPace, RoundAlgorithm, only
from flexray.core.errors import ConfigError, blame

FINITE = sys.float_info.max
ROUNDING = 1e-9
"""Times that differ by less than this share differ by rounding alone."""


def plan_round(algorithm: RoundAlgorithm, now: Moment) -> Plan:
    """Return the plan of the round that starts now."""
    phase = f"round {now.round + 1}"
    _connect(algorithm, now)
    chosen = _choose_timeout(algorithm, now, phase)
    plan = _planned(algorithm, now, phase)
    return plan if chosen is None else replace(plan, timeout_units=chosen)


def _planned(algorithm: RoundAlgorithm, now: Moment, phase: str) -> Plan:
    with blame("algo", phase):
        plan = algorithm.plan(now)
    return _lasting(checked(plan, now, phase, algorithm.computes(now)), algorithm, now)


def _choose_timeout(algorithm: RoundAlgorithm, now: Moment, phase: str) -> float | None:
    """Give an algorithm the timeout that suits the moment, if it is to have one of its own in every round.

    Where nobody computes, it is that of a round with everybody.
    """
    system = algorithm.system
    if not system.chooses_timeout:
        return None
    if not any(algorithm.computes(now)):
        now = replace(now, absent=frozenset())
    key = (now.utilization, now.absent, system.party_comm_units, system.base_units)
    if algorithm.last_choice is None or algorithm.last_choice[0] != key or not vars(type(algorithm)).get("steady"):
        algorithm.last_choice = (key, _best_timeout(algorithm, now, phase))
    algorithm.system = replace(system, timeout_units=algorithm.last_choice[1])
    return algorithm.system.timeout_units


def _best_timeout(algorithm: RoundAlgorithm, now: Moment, phase: str) -> float:
    """Compare plans of copies: the algorithm itself remembers nothing of those that are not carried out."""

    def attempt(timeout_units: float) -> tuple[float, float]:
        trial = algorithm.for_system(replace(algorithm.system, timeout_units=timeout_units))
        plan = _planned(trial, now, phase)
        return plan.duration_units, trial.reach(plan)

    each = zip(algorithm.unit_times(now), algorithm.computes(now), strict=True)
    chosen = timeouts.choose({units for units, computes in each if computes}, attempt)
    return algorithm.system.timeout_units if chosen is None else chosen


def plan_turn(algorithm: EventAlgorithm, party: int, name: str, now: Moment, queued_units: float = 0.0) -> Plan:
    """Return the plan of the turn of ``party`` (0-based), called ``name``, that starts now.

    Args:
        algorithm: Plans it.
        party: The party (0-based).
        name: The party's name.
        now: What is known.
        queued_units: How long the server, busy with others, let it wait for the answer with which the turn starts.
    """
    phase = f"turn {now.round + 1} of {name}"
    _connect(algorithm, now)
    with blame("algo", phase):
        plan = algorithm.plan(party, now)
    plan, measured = checked(plan, now, phase, algorithm.computes(now)), algorithm.system.measured
    if measured is None or plan.end_units is not None:
        return plan
    seconds = measured.turn_seconds(party, _shares(now), algorithm.system.party_comm_units, queued_units)
    server = measured.turn_s[-1] if plan.server_units else 0.0
    return replace(plan, duration_units=seconds + plan.comm_units, server_units=server)


def driver_units(algorithm: EventAlgorithm) -> float:
    """Return how long the driver is busy with each turn, before the server is."""
    measured = algorithm.system.measured
    return measured.driver_s if measured else 0.0


def _shares(now: Moment) -> list[float]:
    """Return what everybody has of its machine."""
    return [1.0 - c for c in now.utilization]


def plan_dummy(algorithm: RoundAlgorithm, now: Moment) -> Plan | None:
    """Return the plan of the dummy round, from which nobody is absent, or None if the algorithm asks for none."""
    now, phase = replace(now, absent=frozenset()), "its dummy round"
    _connect(algorithm, now)
    _choose_timeout(algorithm, now, phase)
    with blame("algo", phase):
        plan = algorithm.preparation(now)
    if plan is None:
        return None
    return _lasting(checked(plan, now, phase, algorithm.computes(now)), algorithm, now)


def _connect(algorithm: RoundAlgorithm | EventAlgorithm, now: Moment) -> None:
    """Give an algorithm the link times of the moment, where they differ from one to the next."""
    if now.party_comm_units is not None:
        algorithm.system = replace(algorithm.system, party_comm_units=now.party_comm_units)


def _lasting(plan: Plan, algorithm: RoundAlgorithm, now: Moment) -> Plan:
    """Return the plan with a duration that the local iterations in it fit into, unless they are not waited for.

    Where seconds were measured, all else that a round takes comes on top.
    """
    measured = algorithm.system.measured
    if measured is not None and plan.end_units is None:
        least = 0.0 if plan.pace == "slowest" and any(plan.tau) else plan.duration_units - plan.comm_units
        waits = algorithm.system.waits_for_overrun
        seconds = measured.round_seconds(plan.tau, _shares(now), least, now.absent, waits, plan.pace == "fill")
        return replace(plan, duration_units=seconds + plan.comm_units)
    longest = max(compress(map(operator.mul, plan.tau, plan.unit_times), plan.tau), default=0.0)
    if algorithm.per_gradient:  # they may begin before the round does
        return plan
    if not algorithm.system.waits_for_overrun or longest <= (plan.duration_units - plan.comm_units) * (1 + ROUNDING):
        return plan
    return replace(plan, duration_units=longest + plan.comm_units)


def left_out(algorithm: RoundAlgorithm, index: int, utilization: Sequence[float]) -> frozenset[int]:
    """Return the parties (0-based) that an algorithm leaves out of a round (0-based).

    Raises:
        ConfigError: It names what is no party.
    """
    phase, count = f"round {index + 1}", len(algorithm.system.names) - 1
    with blame("algo", phase):
        given = algorithm.leaves_out(index, utilization)
    try:
        found = frozenset(map(operator.index, given))
    except TypeError:
        found = frozenset((-1,))
    if not all(0 <= k < count for k in found):
        raise ConfigError(
            f"algo failed in {phase}: it leaves out {_short(given)}, expected numbers from 0 to {count - 1}"
        )
    return found


def checked(plan: Any, now: Moment, phase: str, computes: Sequence[bool]) -> Plan:
    """Return the plan in Python's own numbers, since NumPy's have no JSON; the frozen and absent take no iteration.

    Raises:
        ConfigError: It is no plan, or has too few or too many numbers, or some that mean nothing.
    """
    if not isinstance(plan, Plan):
        raise ConfigError(f"algo failed in {phase}: its plan is {_short(plan)}, expected a {Plan.__module__}.Plan")
    count = len(now.utilization)
    try:
        tau = _numbers("tau", plan.tau, count, int, "whole numbers of at least 0")
        lr = _numbers("lr", plan.lr, count, float, "finite numbers of at least 0")
        duration = _number("duration_units", plan.duration_units)
        comm = _number("comm_units", plan.comm_units, most=duration)  # the rest is computing
        times = _numbers("unit_times", plan.unit_times, count, float, "numbers of at least 0", math.inf)
        server = _number("server_units", plan.server_units)
        stale = plan.staleness
        stale = None if stale is None else _numbers("staleness", stale, count - 1, float, "numbers of at least 0")
        end, used = plan.end_units, plan.utilization
        end = None if end is None else _number("end_units", end, least=now.sim_time)
        used = None if used is None else _numbers("utilization", used, count, float, "numbers from 0 to 1", 1.0)
        if plan.pace not in get_args(RealPace):
            raise ConfigError(f"pace {_short(plan.pace)}, expected one of: {', '.join(get_args(RealPace))}")
    except ConfigError as error:
        raise ConfigError(f"algo failed in {phase}: its plan has {error}") from error
    return Plan(only(tau, computes), lr, duration, comm, times, end, used, plan.pace, server, None, stale)


def _numbers(name: str, given: Any, count: int, kind: type, words: str, most: float = FINITE) -> tuple[Any, ...]:
    """Return ``count`` numbers from 0 to ``most``; one that ``kind`` changes, such as 1.5, "1" or NaN, is none."""
    try:
        plain = given if type(given) is tuple and set(map(type, given)) == {kind} else None  # quickest, and usual
        given = list(given)
        found = tuple(map(kind, given)) if plain is None else plain
        is_number = (found is plain or list(found) == given) and not math.isnan(sum(found))
        if is_number and len(found) == count and min(found) >= 0 and max(found) <= most:
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise ConfigError(f"{name} {_short(given)}, expected {count} {words}")


def _number(name: str, given: Any, least: float = 0.0, most: float = FINITE) -> float:
    try:
        number = float(given)
        if number == given and least <= number <= most:
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    words = f"of at least {least:g}" if most == FINITE else f"from {least:g} to the duration, {most:g}"
    raise ConfigError(f"{name} {_short(given)}, expected a finite number {words}")


def _short(given: Any) -> str:
    """Return a value on one line that is not too long."""
    text = " ".join(repr(given).split())
    return text if len(text) <= 100 else f"{text[:100]}..."
