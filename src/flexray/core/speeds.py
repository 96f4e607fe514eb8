"""Operating speeds: from CPU utilization to local iterations and unit times (docs/algorithms.md, Speeds).

Every list holds the parties 1..K, then the server.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from typing_extensions import override

from flexray.core.errors import ConfigError

GOOGLE_MEANS = (
    0.3638092, 0.17014983, 0.14333789, 0.33265191, 0.17415424, 0.06804619,
    0.14446286, 0.29251583, 0.2207424, 0.12800219, 0.27062089, 0.13972783,
    0.30291598,
)  # fmt: skip
"""Average CPU utilizations of the paper's ModelNet40 experiment: 12 parties, then the server."""

EQUAL_GROUPS = (5, 10, 15, 20)
"""Iterations per timeout of four equal groups of parties, for datasets that the paper does not have."""


MOST_ITERATIONS = 1_000_000
"""The most local iterations in a round; more are a slip of the user."""


def local_iterations(timeout_units: float, base_units: float, utilization: float) -> int:
    """Return tau = max(1, floor(t_o (1 - c) / base)), robust to rounding: 20 * (1 - 0.15) gives 17.

    Raises:
        ConfigError: It is above :data:`MOST_ITERATIONS`.
    """
    return max(1, iterations_that_fit(timeout_units, base_units, utilization))


def iterations_that_fit(timeout_units: float, base_units: float, utilization: float) -> int:
    """Return floor(t_o (1 - c) / base), which may be 0.

    Raises:
        ConfigError: It is above :data:`MOST_ITERATIONS`.
    """
    if math.isinf(base_units):
        return 0
    exact = timeout_units * (1.0 - clip(utilization)) / base_units
    if exact > MOST_ITERATIONS:
        raise ConfigError(
            f"timeout: {timeout_units:g} would be {exact:.3g} local iterations in a round, expected at most"
            f" {MOST_ITERATIONS:,}; lower timeout or speeds.iterations, or raise speeds.unit_time"
        )
    return math.floor(exact + 1e-9 * max(1.0, exact))


@lru_cache(maxsize=8)
def all_local_iterations(
    timeout_units: float, base_units: tuple[float, ...], utilization: tuple[float, ...]
) -> tuple[int, ...]:
    """Return :func:`local_iterations` of all participants at once; above :data:`MOST_ITERATIONS` it is not exact."""
    base = np.array(base_units)
    exact = np.where(np.isinf(base), 0.0, timeout_units * (1.0 - np.clip(utilization, 0.0, 1.0)) / base)
    whole = np.floor(exact + 1e-9 * np.maximum(1.0, exact))
    return tuple(np.clip(whole, 1, MOST_ITERATIONS + 1).astype(np.int64).tolist())


@lru_cache(maxsize=8)
def all_unit_times(base_units: tuple[float, ...], utilization: tuple[float, ...]) -> tuple[float, ...]:
    """Return the units that a local iteration of each participant takes, base / (1 - c); infinite at c = 1."""
    with np.errstate(divide="ignore"):
        return tuple((np.array(base_units) / (1.0 - np.clip(utilization, 0.0, 1.0))).tolist())


def clip(utilization: float) -> float:
    """Return ``utilization`` clipped to [0, 1]."""
    return min(1.0, max(0.0, utilization))


class Speeds(ABC):
    """How fast every participant is, at every moment of a run."""

    base_units: tuple[float, ...]
    """Units per local iteration at zero utilization."""

    @property
    @abstractmethod
    def least_utilization(self) -> float:
        """The smallest utilization of any participant in the whole run."""

    @property
    @abstractmethod
    def peaks(self) -> tuple[float, ...]:
        """The largest utilization of every participant in the whole run."""

    @abstractmethod
    def capped(self, most: float) -> Speeds:
        """Return the same speeds with every utilization above ``most`` lowered to it."""

    @abstractmethod
    def utilization(self, round_index: int, sim_time: float) -> tuple[float, ...]:
        """Utilizations in [0, 1] that hold for the round (VAFL: the turn) that starts at ``sim_time``."""


@dataclass(frozen=True)
class FixedSpeeds(Speeds):
    """Speeds that do not change."""

    base_units: tuple[float, ...]
    fixed_utilization: tuple[float, ...]

    @property
    @override
    def least_utilization(self) -> float:
        return min(self.fixed_utilization)

    @property
    @override
    def peaks(self) -> tuple[float, ...]:
        return self.fixed_utilization

    @override
    def capped(self, most: float) -> FixedSpeeds:
        return FixedSpeeds(self.base_units, tuple(min(c, most) for c in self.fixed_utilization))

    @override
    def utilization(self, round_index: int, sim_time: float) -> tuple[float, ...]:
        return self.fixed_utilization


def google_means(num_parties: int) -> tuple[float, ...]:
    """Return the first K of the paper's averages and the 13th for the server; past 12 parties they repeat."""
    return (*(GOOGLE_MEANS[k % 12] for k in range(num_parties)), GOOGLE_MEANS[12])


def equal_groups(num_parties: int, iterations: Sequence[int] = EQUAL_GROUPS) -> tuple[int, ...]:
    """Return iterations per timeout for parties in equal groups in their order, and the fastest for the server."""
    groups = len(iterations)
    return (*(iterations[k * groups // num_parties] for k in range(num_parties)), max(iterations))
