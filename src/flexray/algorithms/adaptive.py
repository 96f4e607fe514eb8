"""Adaptive Flex-VFL (paper, Algorithm 2).

As Flex-VFL, and at the end of every round:

    every participant reports tau_k^r and w_bar_k^r
    the server sets eta_k^{r+1} = A_k / (tau_k^r w_bar_k^r)

The first rate uses tau_k^0 and w_bar_k^0, known from the speeds or found by a dummy round. A party that missed the last
round keeps the rate that follows from the last round it took part in; before that, its first one.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from typing_extensions import override

from flexray.algorithms.base import Moment, Plan, System
from flexray.algorithms.flex import FlexVFL
from flexray.core.errors import ConfigError, near_match
from flexray.core.messages import Report
from flexray.core.speeds import iterations_that_fit

FIRST = ("speeds", "dummy")


class AdaptiveFlexVFL(FlexVFL):
    """Flex-VFL with learning rates that follow the parties' speeds and optimizer weights.

    Args:
        system: The participants.
        weighted: Divide by w_bar (the paper). Without it the rule is that of the published code: it starts at
            eta = A_k / (floor(t_o (1 - c) / base_k) + 1), with the smallest utilization c of the whole run, and goes on
            with eta <- eta * tau_before / tau_now, so that eta stays near A_k / tau_k.
        first: How tau^0 is found: ``speeds`` (known beforehand) or ``dummy`` (a round that takes time and changes
            nothing).
    """

    needs_reports, steady = True, True

    def __init__(self, system: System, weighted: bool = True, first: Literal["speeds", "dummy"] = "speeds") -> None:
        super().__init__(system)
        if first not in FIRST:
            raise ConfigError(f"adaptive.first: unknown value '{first}'{near_match(first, FIRST)}")
        self.weighted = weighted
        self.first = first
        self._first_tau: tuple[int, ...] = ()

    @override
    def preparation(self, now: Moment) -> Plan | None:
        if self.first != "dummy":
            return None
        dummy = super().plan(now)
        self._first_tau = dummy.tau
        return dummy

    @override
    def save(self) -> Any:
        return self._first_tau

    @override
    def load(self, saved: Any) -> None:
        is_one = isinstance(saved, tuple) and all(type(tau) is int and tau >= 0 for tau in saved)
        if not is_one or len(saved) not in (0, len(self.system.names)):
            raise ValueError(f"algorithm: expected the first tau of everybody, got {str(saved)[:80]}")
        self._first_tau = saved

    @override
    def plan(self, now: Moment) -> Plan:
        tau = self.iterations_by_timeout(now)
        return self.make_plan(now, tau, self.system.timeout_units, self._rates(now), "fill")

    @override
    def reach(self, plan: Plan) -> float:
        """Return 1: the rates follow the local iterations, so a round moves as far with any timeout."""
        return 1.0

    def _rates(self, now: Moment) -> tuple[float, ...]:
        system = self.system
        if now.reports is None:
            known = self._first_tau if self.first == "dummy" else ()
            tau_last = known or self.iterations_by_timeout(replace(now, absent=frozenset()))
            w_bar = tuple(o.max_weight(t, 0.0) for o, t in zip(system.optimizers, tau_last, strict=True))
        else:
            tau_last, w_bar = self._reported(now.reports)
        if now.round == 0:
            self._first_tau = tau_last
        if self.weighted:
            spent = map(operator.mul, tau_last if all(tau_last) else [t or 1 for t in tau_last], w_bar)
            return tuple(map(operator.truediv, system.base_rates, spent))
        return tuple(
            eta * max(1, t0) / max(1, t)
            for eta, t0, t in zip(self._published_first_rates, self._first_tau, tau_last, strict=True)
        )

    @property
    def _published_first_rates(self) -> tuple[float, ...]:
        system = self.system
        return published_first_rates(
            system.base_rates, system.base_units, system.timeout_units, system.least_utilization
        )

    def _reported(self, reports: Sequence[Report]) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return tau and w_bar of everybody's last reports; before a first report, those of the first rate."""
        tau, w_bar = (tuple(map(operator.attrgetter(column), reports)) for column in ("tau", "max_weight"))
        if all(tau):
            return tau, w_bar
        first_tau = self._first_tau or (0,) * len(reports)
        found = [
            (r.tau, r.max_weight) if r.tau else (first, o.max_weight(first, 0.0))
            for r, first, o in zip(reports, first_tau, self.system.optimizers, strict=True)
        ]
        return tuple(tau for tau, _ in found), tuple(w_bar for _, w_bar in found)


@lru_cache(maxsize=8)
def published_first_rates(
    base_rates: tuple[float, ...], base_units: tuple[float, ...], timeout_units: float, least_utilization: float
) -> tuple[float, ...]:
    """Return the first rates of the published code."""
    return tuple(
        a / (iterations_that_fit(timeout_units, base, least_utilization) + 1)
        for a, base in zip(base_rates, base_units, strict=True)
    )


def static_rates(system: System) -> tuple[float, ...]:
    """Return eta_k = A_k / (tau_max w_bar(tau_max)), tau_max being the iterations at zero utilization."""
    idle = Moment(round=0, sim_time=0.0, utilization=(0.0,) * len(system.names))
    tau_max = FlexVFL(system).iterations_by_timeout(idle)
    return tuple(
        a / (max(1, t) * o.max_weight(t, 0.0))
        for a, t, o in zip(system.base_rates, tau_max, system.optimizers, strict=True)
    )
