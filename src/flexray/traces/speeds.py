"""Speeds that follow a trace: each participant is throttled like one machine of it (docs/algorithms.md, Speeds).

Bandwidths follow one in the same way (docs/algorithms.md, Links).

Shapes: k = participants, the parties 1..K and then the server; t = samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from flexray.core.errors import ConfigError
from flexray.core.speeds import Speeds

Advance = Literal["round", "time"]
AtEnd = Literal["wrap", "hold", "error"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Numbers read from a trace, by round or by time.

    Args:
        values_kt: One row per participant.
        source: The trace's name, for messages.
        advance: ``round``: one sample per global round (VAFL: per turn of a party), as in the paper. ``time``: the
            sample that holds at the simulated time.
        sample_units: Units that one sample lasts, for ``time``.
        at_end: After the last sample start again (``wrap``), keep it (``hold``) or stop with an ``error``.
        key: Begins the keys of the trace, for messages.
        synthetic: Whether the trace was generated.
        machines: The machine of each participant that follows the trace.
    """

    values_kt: npt.NDArray[np.float64]
    source: str
    advance: Advance = "round"
    sample_units: float = 1.0
    at_end: AtEnd = "wrap"
    key: str = "speeds"
    synthetic: bool = False
    machines: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, round_index: int, sim_time: float) -> tuple[float, ...]:
        """Return the numbers that hold for the round (VAFL: the turn) that starts at ``sim_time``.

        Raises:
            ConfigError: The trace has ended, and that is an error.
        """
        exact = sim_time / self.sample_units
        sample = round_index if self.advance == "round" else int(exact + 1e-9 * max(1.0, exact))
        return tuple(self.values_kt[:, self._place(sample)].tolist())

    def _place(self, sample: int) -> int:
        length = int(self.values_kt.shape[1])
        if sample < length:
            return sample
        if self.at_end == "error":
            raise ConfigError(
                f"{self.key}.at_end: the trace {self.source} has {length} samples, and sample {sample + 1} is asked"
                " for; expected a shorter run, or at_end=wrap or hold"
            )
        return sample % length if self.at_end == "wrap" else length - 1


@dataclass(frozen=True, eq=False)
class TraceSpeeds(Speeds):
    """Speeds of which a trace gives the utilizations, in [0, 1]."""

    base_units: tuple[float, ...]
    trace: Samples

    @property
    @override
    def least_utilization(self) -> float:
        return float(self.trace.values_kt.min())

    @property
    @override
    def peaks(self) -> tuple[float, ...]:
        return tuple(self.trace.values_kt.max(axis=1).tolist())

    @override
    def capped(self, most: float) -> TraceSpeeds:
        return TraceSpeeds(self.base_units, replace(self.trace, values_kt=np.minimum(self.trace.values_kt, most)))

    @override
    def utilization(self, round_index: int, sim_time: float) -> tuple[float, ...]:
        return self.trace(round_index, sim_time)


def followed(speeds: object) -> Samples | None:
    """Return the trace that speeds or bandwidths follow; None if they follow none."""
    trace = speeds.trace if isinstance(speeds, TraceSpeeds) else speeds
    return trace if isinstance(trace, Samples) else None
