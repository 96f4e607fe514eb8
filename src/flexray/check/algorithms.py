"""What flexray relies on in an algorithm.

Every list holds the parties 1..K, then the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from flexray.algorithms.base import EventAlgorithm, Moment, Plan, RoundAlgorithm, System
from flexray.algorithms.checked import left_out, plan_dummy, plan_round, plan_turn
from flexray.check.causes import Cause, Watch, changed, remembered
from flexray.check.promises import ELSEWHERE, BrokenError, Checks, same
from flexray.core.messages import SERVER, Report
from flexray.core.seeds import generator
from flexray.engine.driver.base import CODEC
from flexray.optimizers import LocalSGD

Algorithm = RoundAlgorithm | EventAlgorithm
ROUNDS, SAVED_AFTER = 6, 3
TIMEOUT, COMM = 20.0, 10.0
SIZES = (4, 1, 16)
"""Numbers of parties."""
UNSEEN = Cause(
    "with nothing seen that may be why", "plan from the moment, the system and what was planned before alone"
)
ROUNDING = 1e-9


def system_of(parties: int, frozen: int | None = None) -> System:
    """Return participants at speeds of 5 to 20 local iterations per timeout, the server at 20."""
    count = parties + 1
    base = (*(TIMEOUT / (5, 10, 15, 20)[k % 4] for k in range(parties)), TIMEOUT / 20)
    return System(
        names=(*(f"party{k + 1}" for k in range(parties)), SERVER),
        base_units=base,
        timeout_units=TIMEOUT,
        party_comm_units=(COMM,) * parties,
        lr=(0.01,) * count,
        base_rates=(0.1,) * count,
        optimizers=(LocalSGD(momentum=0.9),) * count,
        frozen=tuple(k == frozen for k in range(count)),
    )


def check_algorithm(checks: Checks, factory: partial[Any], words: Mapping[str, Any]) -> None:
    """Check an algorithm by the plans that it makes for few and for many parties."""
    with checks.promise("is made for a system of participants"):
        if not isinstance(made := factory(system_of(4)), Algorithm):
            raise BrokenError(f"it made a {type(made).__name__}", "expected an algorithm of flexray.algorithms.base")
    if checks.broke():
        return
    for parties in SIZES:
        with checks.promise(f"plans for {parties} {'party' if parties == 1 else 'parties'}"):
            plans(factory(system_of(parties)))
        if checks.broke():
            return

    def make() -> Algorithm:
        made: Algorithm = factory(system_of(4))
        return made

    with checks.promise("plans where somebody is frozen, absent or busy"):
        plans(factory(system_of(4, frozen=1)), absent=frozenset({0, 3}), utilization=0.99)
        plans(factory(system_of(4, frozen=4)), absent=frozenset(range(4)))
    for check in (_moves_on, _charges_what_it_takes, _leaves_out_the_same, _reads_no_clock):
        check(checks, make)
    for check in (_repeats, _travels, _goes_on):
        if not checks.broke():
            check(checks, make)


def plans(
    algorithm: Algorithm,
    rounds: int = ROUNDS,
    first: int = 0,
    absent: frozenset[int] = frozenset(),
    utilization: float | None = None,
) -> list[Plan]:
    """Return the plans of some rounds or turns, checked as a run checks them.

    Args:
        algorithm: The algorithm.
        rounds: The last round, or turn of each party.
        first: The first one (0-based).
        absent: The parties (0-based) that miss every other round.
        utilization: Everybody's; None: other ones in every round.

    Raises:
        ConfigError: A plan means nothing.
    """
    found, system = [], algorithm.system
    if isinstance(algorithm, RoundAlgorithm) and not first and (dummy := plan_dummy(algorithm, _moment(system, 0))):
        found.append(dummy)
    reports = None
    for index in range(rounds):
        now = _moment(system, index, absent if index % 2 else frozenset(), utilization)
        if isinstance(algorithm, EventAlgorithm):
            for party, name in enumerate(system.names[:-1] if index >= first else ()):
                found.append(plan_turn(algorithm, party, name, now))
            continue
        now = Moment(now.round, now.sim_time, now.utilization, reports, now.absent)
        if algorithm.needs_reports:
            reports = _reports(system, index)
        if index >= first:
            found.append(plan_round(algorithm, now))
    return found


def _moment(
    system: System, index: int, absent: frozenset[int] = frozenset(), utilization: float | None = None
) -> Moment:
    count = len(system.names)
    drawn = generator(0, "utilization", index).random(count) if utilization is None else [utilization] * count
    return Moment(index, index * (TIMEOUT + COMM), tuple(map(float, drawn)), absent=absent)


def _reports(system: System, index: int) -> tuple[Report, ...]:
    taus = generator(0, "tau", index).integers(1, 20, size=len(system.names)).tolist()
    return tuple(Report(tau, o.max_weight(tau, 0.01)) for tau, o in zip(taus, system.optimizers, strict=True))


def _moves_on(checks: Checks, make: Callable[[], Algorithm]) -> None:
    with checks.promise("has somebody take local iterations, at rates above 0"):
        for number, plan in enumerate(plans(make()), 1):
            if not any(plan.tau):
                raise BrokenError(f"in plan {number} nobody does", "expected a tau of at least 1 for somebody")
            for name, tau, lr in zip(system_of(4).names, plan.tau, plan.lr, strict=True):
                if tau and not lr > 0:
                    raise BrokenError(
                        f"in plan {number} {name} takes {tau} at rate {lr:g}", "expected a rate above 0, or a tau of 0"
                    )


def _charges_what_it_takes(checks: Checks, make: Callable[[], Algorithm]) -> None:
    """A round lasts as long as its slowest link, a turn as long as its party's; computing comes on top."""
    with checks.promise("charges communication, and the computing of a turn"):
        algorithm = make()
        takes_turns, parties = algorithm.takes_turns, len(algorithm.system.party_comm_units)
        for number, plan in enumerate(plans(algorithm)):
            if plan.end_units is not None:
                continue
            sends = not isinstance(algorithm, RoundAlgorithm) or (
                algorithm.phase(number) not in ("apart", "features") and not algorithm.per_gradient
            )
            if sends and plan.comm_units < COMM * (1 - ROUNDING):
                raise BrokenError(
                    f"plan {number + 1} has comm_units {plan.comm_units:g} where links take {COMM:g}",
                    "use make_plan, or add self.system.party_comm_units",
                )
            party = number % parties
            needed = plan.tau[party] * plan.unit_times[party] + plan.comm_units
            if takes_turns and plan.duration_units < needed * (1 - ROUNDING):
                raise BrokenError(
                    f"turn {number + 1} lasts {plan.duration_units:g} units, what is in it {needed:g}",
                    "expected tau times the party's unit time, and its link",
                )


def _repeats(checks: Checks, make: Callable[[], Algorithm]) -> None:
    with checks.promise("plans the same for the same speeds and reports"):
        with Watch(checks.target, 1, seeds_torch=True, sees=False):
            expected = plans(make())
        with Watch(checks.target, 2, seeds_torch=True) as watch:
            found = plans(make())
        same(found, expected, f"plan {_first(found, expected)} differs", UNSEEN, lambda: watch.causes)


def _travels(checks: Checks, make: Callable[[], Algorithm]) -> None:
    with checks.promise("plans the same in the driver's process", "expected attributes that can be pickled"):
        found, expected = checks.elsewhere(plans, make()), plans(make())
        same(found, expected, f"plan {_first(found, expected)} differs", ELSEWHERE)


def _first(found: list[Plan], expected: list[Plan]) -> int:
    """Return the number of the first plan that differs, 0 if none does."""
    return next((k for k, pair in enumerate(zip(found, expected, strict=True), 1) if pair[0] != pair[1]), 0)


def _reads_no_clock(checks: Checks, make: Callable[[], Algorithm]) -> None:
    with checks.promise("reads no clock"), Watch(checks.target, 1) as watch:
        plans(make())
        for cause in watch.clocks:
            raise BrokenError(cause.seen, "now.sim_time is the time")


def _leaves_out_the_same(checks: Checks, make: Callable[[], Algorithm]) -> None:
    if not isinstance(make(), RoundAlgorithm):
        return
    with checks.promise("leaves the same parties out of a round whenever it is asked"):
        with Watch(checks.target, 1, seeds_torch=True, sees=False):
            expected = dict(_left_out(make(), range(ROUNDS)))
        with Watch(checks.target, 2, seeds_torch=True) as watch:
            found = dict(_left_out(make(), (*reversed(range(ROUNDS)), *range(ROUNDS))))
        draw = Cause("", "draw from flexray.core.seeds.generator(seed, 'sampled', index)")
        causes = [Cause(cause.seen, draw.mend) for cause in watch.causes]
        order = Cause("they depend on what was asked before", draw.mend)
        same(found, expected, "they differ", order, lambda: causes)


def _left_out(algorithm: Algorithm, rounds: Any) -> Iterator[tuple[int, frozenset[int]]]:
    for index in rounds:
        if isinstance(algorithm, RoundAlgorithm):
            yield index, left_out(algorithm, index, _moment(algorithm.system, index).utilization)


def _goes_on(checks: Checks, make: Callable[[], Algorithm]) -> None:
    with checks.promise(
        "plans the same after a checkpoint", "save() returns plain values of all it remembers, load() takes them over"
    ):
        whole, begun, resumed = make(), make(), make()
        before = remembered(begun)
        plans(begun, SAVED_AFTER)
        arrays: dict[str, Any] = {}
        resumed.load(CODEC.decode(CODEC.encode(begun.save(), arrays), arrays))
        found = plans(resumed, first=SAVED_AFTER)
        expected = plans(whole)[-len(found) :]
        mend = "return it from save() and take it over in load()"
        names = [f"'self.{name}'" for name in changed(before, remembered(begun))]
        causes = [Cause(f"{name} changes from round to round", mend) for name in names]
        number = SAVED_AFTER + _first(found, expected)
        same(found, expected, f"the plan of round {number} differs", UNSEEN, lambda: causes)
