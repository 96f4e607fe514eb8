"""Flex-VFL (paper, Algorithm 1).

In every global round:

    every party sends its embeddings of the batch; the server sends Phi (its model and all embeddings) to all
    in parallel, every party and the server take as many local iterations as fit the timeout:
        tau_k = max(1, floor(t_o (1 - c_k) / base_k))
    the round lasts t_o + t_comm
"""

from __future__ import annotations

from typing_extensions import override

from flexray.algorithms.base import Moment, Plan, RoundAlgorithm


class FlexVFL(RoundAlgorithm):
    """Every participant runs as many local iterations as fit the timeout."""

    steady = True

    @override
    def plan(self, now: Moment) -> Plan:
        return self.make_plan(now, self.iterations_by_timeout(now), self.system.timeout_units, pace="fill")
