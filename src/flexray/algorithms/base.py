"""What an algorithm knows and what it returns.

Every tuple holds the parties 1..K, then the server, unless its name says ``party``.
"""

from __future__ import annotations

import copy
import operator
import statistics
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from flexray.algorithms.phases import Phased
from flexray.core.clock import Stopwatch
from flexray.core.measured import Measured
from flexray.core.messages import Report
from flexray.core.speeds import MOST_ITERATIONS, all_local_iterations, all_unit_times, iterations_that_fit
from flexray.optimizers import LocalOptimizer

RealPace = Literal["fixed", "fill", "slowest"]


@dataclass(frozen=True)
class System:
    """The participants as they are for the whole run.

    Args:
        names: Participant names; the last is ``server``.
        base_units: Units per local iteration at zero utilization.
        timeout_units: t_o.
        party_comm_units: t_comm of every party (round trip); in a plan, that of the round which is planned.
        lr: Fixed learning rates eta_k.
        base_rates: A_k of the adaptive rule.
        optimizers: Local optimizers.
        frozen: Whether a participant takes no local iterations at all.
        labels_only: The party (0-based) that has no features, if there is one: it is frozen and takes no turns.
        least_utilization: The smallest utilization of any participant in the whole run.
        waits_for_overrun: Whether a round lasts until every local iteration that it began has ended; else it ends with
            its timeout, as the paper's formula has it.
        measured: The seconds of known machines, with which rounds and turns are charged; None: units.
        chooses_timeout: Whether every round gets a timeout of its own, which its plan finds in ``timeout_units``
            (:mod:`flexray.algorithms.timeouts`).
    """

    names: tuple[str, ...]
    base_units: tuple[float, ...]
    timeout_units: float
    party_comm_units: tuple[float, ...]
    lr: tuple[float, ...]
    base_rates: tuple[float, ...]
    optimizers: tuple[LocalOptimizer, ...]
    frozen: tuple[bool, ...]
    least_utilization: float = 0.0
    waits_for_overrun: bool = True
    measured: Measured | None = None
    chooses_timeout: bool = False
    labels_only: frozenset[int] = frozenset()
    thawed: tuple[bool, ...] = field(init=False, compare=False, repr=False)
    """Whether each participant is not frozen."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "thawed", tuple(map(operator.not_, self.frozen)))


@dataclass(frozen=True)
class Moment:
    """What is known when a round (VAFL: a turn) starts.

    Args:
        round: 0-based index.
        sim_time: Simulated time in units.
        utilization: CPU utilizations.
        reports: Everybody's last reports: of the round before or, for the absent, of their last round (none yet: tau
            0). None in the first round, or if the algorithm does not ask for them.
        absent: The parties (0-based) that miss the round.
        party_comm_units: t_comm of every party in this round, which its plan finds in :class:`System`; None: as ever.
    """

    round: int
    sim_time: float
    utilization: tuple[float, ...]
    reports: tuple[Report, ...] | None = None
    absent: frozenset[int] = frozenset()
    party_comm_units: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Plan:
    """What every participant does in a round and how long the round lasts.

    Args:
        tau: Local iterations.
        lr: Learning rates, before decay.
        duration_units: Length of the round, communication included (VAFL: until the party's message is at the server).
        comm_units: The part of it that is communication.
        unit_times: Units per local iteration.
        end_units: Time at its end, if that is known exactly (replay); None: the duration after its start.
        utilization: CPU utilizations, if not those of the moment (replay).
        pace: What a round means in real seconds. ``fixed``: everybody takes its tau, and the computing lasts as long as
            planned; ``fill``: everybody takes as many as fit into that; ``slowest``: everybody takes its tau, and the
            computing lasts until the slowest has.
        server_units: VAFL: how long the server is busy with the turn, once the message is there and the turns before
            are answered.
        timeout_units: The timeout that was chosen for the round; None: that of the run, or none.
        staleness: BS-VFL: of how many earlier batches each party lacked gradients when it sent the embeddings.
    """

    tau: tuple[int, ...]
    lr: tuple[float, ...]
    duration_units: float
    comm_units: float
    unit_times: tuple[float, ...]
    end_units: float | None = None
    utilization: tuple[float, ...] | None = None
    pace: RealPace = "fixed"
    server_units: float = 0.0
    timeout_units: float | None = None
    staleness: tuple[float, ...] | None = None

    def end(self, start: Stopwatch) -> Stopwatch:
        """Return the time at its end, if it starts then (VAFL: when the party's message is at the server)."""
        watch = copy.copy(start)
        if self.end_units is None:
            watch.advance(self.duration_units)
        else:
            watch.move_to(self.end_units)
        return watch


class Algorithm:
    """What both kinds of algorithms have: their participants, and a memory that checkpoints hold."""

    takes_turns: ClassVar[bool]
    """Whether parties take turns, each at its own pace; else all participants share global rounds."""
    private_labels: ClassVar[bool] = False
    """Whether labels must stay with one participant, which sends gradients: ``labels_at=all`` is refused."""
    sees_missing: ClassVar[bool] = False
    """Whether the server's model must take any embeddings, as :class:`flexray.models.laser.Laser` does."""
    has_timeout: ClassVar[bool] = True
    """Whether local iterations depend on a timeout: ``timeout=auto`` is refused without."""
    error_feedback: ClassVar[bool] = False
    """Whether compression must send differences: ``network.error_feedback=false`` is refused."""

    def __init__(self, system: System) -> None:
        self.system = system

    def save(self) -> Any:
        """Return what it remembers from one plan to the next, as plain values, for checkpoints."""
        return None

    def load(self, saved: Any) -> None:
        """Take over what :meth:`save` returned."""

    def computes(self, now: Moment) -> tuple[bool, ...]:
        """Return whether each participant takes local iterations: neither frozen nor absent."""
        if not now.absent:
            return self.system.thawed
        return tuple(not frozen and k not in now.absent for k, frozen in enumerate(self.system.frozen))

    def for_system(self, system: System) -> Self:
        """Return the same algorithm for these participants."""
        other = copy.copy(self)
        other.system = system
        return other


class RoundAlgorithm(Phased, Algorithm, ABC):
    """An algorithm of global rounds that all participants share.

    To add one, subclass this, write :meth:`plan`, and name the class: ``algo._target_=my_package.MyAlgorithm``.
    """

    takes_turns = False
    steady: ClassVar[bool] = False
    """Whether plans with equal speeds, links and absences last as long and reach as far: then ``timeout=auto`` compares
    timeouts once for them. It holds for the class that says so, and not for those below it."""
    last_choice: tuple[Hashable, float] | None = None
    """The timeout that was chosen last, and what for; not saved, as the same is chosen again."""
    needs_reports: bool = False
    """Whether :meth:`plan` reads the reports of the round before (the driver then cannot submit ahead)."""
    clients: int = 1
    """Clients of every party, among which its samples are divided."""
    per_gradient: int = 0
    """Local iterations along each gradient, where rounds overlap since parties are ahead of theirs; 0: they do not."""

    @abstractmethod
    def plan(self, now: Moment) -> Plan:
        """Return the plan of the round that starts now."""

    def leaves_out(self, index: int, utilization: Sequence[float]) -> Collection[int]:
        """Return the parties (0-based) that take no part in a round (0-based), as of clients that are sampled.

        It is called before :meth:`plan`, where ``now.absent`` has them: they compute, send and receive nothing, and
        what they sent last stands in (:mod:`flexray.core.absence`). A round must give the same parties each time.
        """
        return ()

    def preparation(self, now: Moment) -> Plan | None:
        """Return the plan of a dummy round, which takes time before the first one and changes nothing, or None.

        With ``clock=wall`` it is really taken, and its reports are those of the first round's :class:`Moment`.
        """
        return None

    def reach(self, plan: Plan) -> float:
        """Return how far a round moves, in A: the mean of eta_k W_k / A_k, with W_k the sum of the optimizer's weights.

        The mean is over those that take local iterations.
        """
        each = zip(plan.tau, plan.lr, self.system.optimizers, self.system.base_rates, strict=True)
        return statistics.fmean([lr * sum(o.weights(t, lr)) / a for t, lr, o, a in each if t] or [1.0])

    def iterations_by_timeout(self, now: Moment, timeout_units: float | None = None) -> tuple[int, ...]:
        """Return tau of every participant within a timeout, by default the run's; 0 for those that do not compute.

        Raises:
            flexray.core.errors.ConfigError: One is above :data:`flexray.core.speeds.MOST_ITERATIONS`.
        """
        system = self.system
        timeout = system.timeout_units if timeout_units is None else timeout_units
        found = all_local_iterations(timeout, system.base_units, now.utilization)
        tau = tuple(map(operator.mul, found, self.computes(now)))
        if max(tau) > MOST_ITERATIONS:
            place = tau.index(max(tau))
            iterations_that_fit(timeout, system.base_units[place], now.utilization[place])  # raises
        return tau

    def same_for_all(self, tau: int) -> tuple[int, ...]:
        """Return ``tau`` for every participant, 0 for a frozen one."""
        return tuple(0 if frozen else tau for frozen in self.system.frozen)

    def unit_times(self, now: Moment) -> tuple[float, ...]:
        """Return the units that one local iteration takes."""
        return all_unit_times(self.system.base_units, now.utilization)

    def slowest_unit(self, now: Moment) -> float:
        """Return the longest unit time of participants that compute (0 if none does)."""
        times = zip(self.unit_times(now), self.computes(now), strict=True)
        return max((unit for unit, computes in times if computes), default=0.0)

    def comm_units(self, now: Moment) -> float:
        """Return what a synchronous round waits for: the slowest link of a party that is there."""
        if not now.absent:
            return max(self.system.party_comm_units, default=0.0)
        links = enumerate(self.system.party_comm_units)
        return max((units for k, units in links if k not in now.absent), default=0.0)

    def wait_for_all(self, now: Moment, tau: int) -> Plan:
        """Return the plan of a round that waits until the slowest has taken ``tau`` local iterations, as all do."""
        return self.make_plan(now, self.same_for_all(tau), tau * self.slowest_unit(now), pace="slowest")

    def make_plan(
        self,
        now: Moment,
        tau: Sequence[int],
        computing_units: float,
        lr: Sequence[float] | None = None,
        pace: RealPace = "fixed",
    ) -> Plan:
        """Return the plan of a round that computes for ``computing_units``, then communicates.

        The learning rates are the fixed ones unless ``lr`` is given; ``pace`` says what it means in real seconds. The
        absent take no local iteration; a round in which for that reason nobody does passes with its timeout. No round
        is shorter than the local iterations in it (:func:`flexray.algorithms.checked.plan_round`): where one alone
        takes longer than the timeout, it is waited for.
        """
        comm, times = self.comm_units(now), self.unit_times(now)
        tau = only(tau, self.computes(now))
        if now.absent and not any(tau):
            computing_units = self.system.timeout_units
        return Plan(tau, tuple(lr or self.system.lr), computing_units + comm, comm, times, pace=pace)


def only(tau: Sequence[int], computes: Sequence[bool]) -> tuple[int, ...]:
    """Return local iterations with 0 for those that do not compute."""
    return tuple(tau) if all(computes) else tuple(t if own else 0 for t, own in zip(tau, computes, strict=True))


class EventAlgorithm(Algorithm, ABC):
    """An algorithm in which parties take turns, each at its own pace."""

    takes_turns = True
    has_timeout = False
    max_ahead: int | None = None
    """How many turns a party may be ahead of the slowest one before it waits; None: it never waits.

    The party has taken ``n`` turns, the slowest ``m``: it begins its next one when ``n - m <= max_ahead``.
    """

    @abstractmethod
    def plan(self, party: int, now: Moment) -> Plan:
        """Return how long the turn of ``party`` (0-based) that starts now lasts, and what is done when it ends."""

    def priority(self, party: int, turn: int) -> int:
        """Return the rank of a turn among those that end together: the lowest comes first, by default by party."""
        return party
