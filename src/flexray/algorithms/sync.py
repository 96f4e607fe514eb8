"""Sync-Min-VFL and Sync-Max-VFL (paper, Section VII-A: baselines): the same number of local iterations for all.

Sync-Min: tau = min_k tau_k within the timeout; the round lasts t_o + t_comm.
Sync-Max: tau = max_k tau_k; the round waits until the slowest has taken them all.
Sync-VFL, with a given tau = Q, is what FedBCD, C-VFL and EF-VFL plan.
The server counts among the participants. A party that misses the round does not: nobody waits for it, so it neither
lowers nor raises the others' tau.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from typing_extensions import override

from flexray.algorithms.base import Moment, Plan, RoundAlgorithm, System
from flexray.core.checks import whole


class SyncMinVFL(RoundAlgorithm):
    """All take as many local iterations as the slowest can within the timeout."""

    steady = True

    @override
    def plan(self, now: Moment) -> Plan:
        tau = min((t for t in self.iterations_by_timeout(now) if t > 0), default=0)
        return self.make_plan(now, self.same_for_all(tau), self.system.timeout_units)


class SyncMaxVFL(RoundAlgorithm):
    """All take as many local iterations as the fastest can within the timeout, however long it takes."""

    steady = True

    @override
    def plan(self, now: Moment) -> Plan:
        return self.wait_for_all(now, max(self.iterations_by_timeout(now)))


class SyncVFL(RoundAlgorithm):
    """All take the number of local iterations that is given, however long it takes; FedBCD and C-VFL begin with it.

    Args:
        system: The participants.
        local_iterations: Q, local iterations of every participant in every round.
    """

    has_timeout = False

    def __init__(self, system: System, local_iterations: int = 5) -> None:
        super().__init__(system)
        self.local_iterations = whole("algo.local_iterations", local_iterations, low=1)

    @override
    def plan(self, now: Moment) -> Plan:
        return self.wait_for_all(now, self.local_iterations)

    def wait_for_parties(self, now: Moment, tau: int, sends: bool, lr: Sequence[float] | None = None) -> Plan:
        """Return the plan of a round of ``tau`` local iterations of the parties alone, which may then send something.

        Args:
            now: What is known.
            tau: Local iterations.
            sends: Whether the round waits for the slowest link besides.
            lr: Learning rates; None: the fixed ones.
        """
        each, times = (*self.same_for_all(tau)[:-1], 0), self.unit_times(now)
        there = (k for k in range(len(each)) if k not in now.absent)
        units = max(each[k] * times[k] for k in there)
        plan = self.make_plan(now, each, units, lr, pace="slowest")
        if sends:
            return plan
        return replace(plan, duration_units=plan.duration_units - plan.comm_units, comm_units=0.0)
