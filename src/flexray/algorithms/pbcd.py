"""P-BCD, parallel block coordinate descent (paper, Section VII-A: baselines): one local iteration a round.

The round lasts as long as the slowest participant's iteration, plus t_comm; no timeout is involved.
"""

from __future__ import annotations

from typing_extensions import override

from flexray.algorithms.base import Moment, Plan, RoundAlgorithm


class PBCD(RoundAlgorithm):
    """Every participant takes exactly one local iteration per round."""

    has_timeout = False

    @override
    def plan(self, now: Moment) -> Plan:
        return self.wait_for_all(now, 1)
