"""Repeats the rounds or turns of an earlier run: the same local iterations, rates, durations and order.

It does not matter what decided them then: an algorithm on virtual speeds, or real seconds on a busy machine.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from typing_extensions import override

from flexray.algorithms.base import EventAlgorithm, Moment, Plan, RoundAlgorithm, System
from flexray.algorithms.phases import Phase
from flexray.core.errors import ConfigError


@dataclass(frozen=True)
class Recorded:
    """One recorded round (VAFL: event).

    Args:
        end: Time at its end.
        duration: Its length.
        tau: Local iterations of the parties, then the server.
        lr: Learning rates as they were used, decay included.
        utilization: CPU utilizations.
        party: VAFL: the party (0-based) that took its turn.
        absent: The parties (0-based) that missed it; None: no absence was simulated.
    """

    end: float
    duration: float
    tau: tuple[int, ...]
    lr: tuple[float, ...]
    utilization: tuple[float, ...]
    party: int | None = None
    absent: frozenset[int] | None = None


def _plan(system: System, recorded: Recorded, link_units: float) -> Plan:
    """Return a recorded round as a plan; everybody is shown to compute as long as it lasted."""
    comm = min(link_units, recorded.duration)
    unit_times = tuple((recorded.duration - comm) / max(1, tau) for tau in recorded.tau)
    return Plan(
        recorded.tau, recorded.lr, recorded.duration, comm, unit_times,
        end_units=recorded.end, utilization=recorded.utilization,
    )  # fmt: skip


class ReplayRounds(RoundAlgorithm):
    """Repeats global rounds.

    Args:
        system: The participants.
        recorded: The rounds, in order.
        original: What planned them, and says what was done in each.
    """

    def __init__(self, system: System, recorded: tuple[Recorded, ...], original: RoundAlgorithm) -> None:
        super().__init__(system)
        self._recorded, self._original = recorded, original
        self.selects, self.clients, self.per_gradient = original.selects, original.clients, original.per_gradient

    @override
    def phase(self, index: int) -> Phase:
        return self._original.phase(index)

    @override
    def penalty(self, index: int) -> float:
        return self._original.penalty(index)

    @property
    @override
    def has_phases(self) -> bool:
        return self._original.has_phases

    @override
    def plan(self, now: Moment) -> Plan:
        return _plan(self.system, self._recorded[now.round], self.comm_units(now))


class ReplayTurns(EventAlgorithm):
    """Repeats VAFL's turns in their recorded order.

    Args:
        system: The participants.
        recorded: The events, in order.
        max_ahead: The bound under which they were recorded.

    Raises:
        ConfigError: A party was further ahead than that.
    """

    def __init__(self, system: System, recorded: tuple[Recorded, ...], max_ahead: int | None = None) -> None:
        super().__init__(system)
        self._recorded = recorded
        self.max_ahead = max_ahead
        self._places: list[list[int]] = [[] for _ in system.names[:-1]]
        most, takers = 0, [own for k, own in enumerate(self._places) if k not in system.labels_only]
        for place, event in enumerate(recorded):
            if event.party is not None:
                most = max(most, len(self._places[event.party]) - min(map(len, takers)))
                self._places[event.party].append(place)
        if max_ahead is not None and most > max_ahead:
            raise ConfigError(
                f"algo.max_ahead: the recorded run had a party ahead by {most} when it began a turn;"
                f" expected at least {most}, or null, got {max_ahead}"
            )

    @override
    def plan(self, party: int, now: Moment) -> Plan:
        if now.round >= len(self._places[party]):
            return _never(self.system)
        return _plan(self.system, self._recorded[self._places[party][now.round]], self.system.party_comm_units[party])

    @override
    def priority(self, party: int, turn: int) -> int:
        places = self._places[party]
        return places[turn] if turn < len(places) else len(self._recorded)


def replayed(algorithm: RoundAlgorithm | EventAlgorithm, recorded: tuple[Recorded, ...]) -> ReplayRounds | ReplayTurns:
    """Return what repeats the rounds, or turns, that a run of ``algorithm`` recorded."""
    if isinstance(algorithm, EventAlgorithm):
        return ReplayTurns(algorithm.system, recorded, algorithm.max_ahead)
    return ReplayRounds(algorithm.system, recorded, algorithm)


def _never(system: System) -> Plan:
    """Return the plan of a turn after the recording's end, which the replay does not reach."""
    count, longest = len(system.names), sys.float_info.max
    return Plan((0,) * count, system.lr, longest, 0.0, (longest,) * count)
