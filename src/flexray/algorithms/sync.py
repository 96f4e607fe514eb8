"""Sync-Min-VFL and Sync-Max-VFL (paper, Section VII-A: baselines): the same number of local iterations for all.

Sync-Min: tau = min_k tau_k within the timeout; the round lasts t_o + t_comm.
Sync-Max: tau = max_k tau_k; the round waits until the slowest has taken them all.
The server counts among the participants. A party that misses the round does not: nobody waits for it, so it neither
lowers nor raises the others' tau.
"""

from __future__ import annotations

from typing_extensions import override

from flexray.algorithms.base import Moment, Plan, RoundAlgorithm


class SyncMinVFL(RoundAlgorithm):
    """All take as many local iterations as the slowest can within the timeout."""

    @override
    def plan(self, now: Moment) -> Plan:
        tau = min((t for t in self.iterations_by_timeout(now) if t > 0), default=0)
        return self.make_plan(now, self.same_for_all(tau), self.system.timeout_units)


class SyncMaxVFL(RoundAlgorithm):
    """All take as many local iterations as the fastest can within the timeout, however long it takes."""

    @override
    def plan(self, now: Moment) -> Plan:
        tau = max(self.iterations_by_timeout(now))
        return self.make_plan(now, self.same_for_all(tau), tau * self.slowest_unit(now), pace="slowest")
