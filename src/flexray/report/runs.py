"""Run folders as they are found: finished, diverged, stopped on the way, still running, or damaged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.core.scores import meets

FloatArray = npt.NDArray[np.float64]

COMPLETED, DIVERGED, INTERRUPTED, FAILED = ENDS = ("completed", "diverged", "interrupted", "failed")
"""As a run that ended says of itself: interrupted by a signal, or failed because it lost processes too often."""
STOPPED = {INTERRUPTED: "interrupted", FAILED: "given up for lost processes"}
"""What is said of a run that was not done and can be resumed."""
UNFINISHED, DAMAGED = "unfinished", "damaged"
"""As the files tell."""


@dataclass(frozen=True)
class Series:
    """What changed over the rounds of a run. Shapes: r = rounds (VAFL: events), p = parties, then the server.

    Args:
        number_r: Round numbers.
        time_r: Simulated time at their ends.
        sent_bytes_r: Bytes sent until then.
        tau_rp: Local iterations.
        lr_rp: Learning rates.
        by_turns: Rounds are turns of single parties (VAFL); the others' tau is 0.
    """

    number_r: FloatArray
    time_r: FloatArray
    sent_bytes_r: FloatArray
    tau_rp: list[list[float]]
    lr_rp: list[list[float]]
    by_turns: bool = False


@dataclass(frozen=True)
class Evaluations:
    """The evaluations of a run. Shape: e = evaluations.

    Args:
        round_e: Rounds that were done.
        time_e: Simulated time.
        sent_bytes_e: Bytes sent until then.
        metrics: Values such as ``test_top1``, NaN where they were NaN.
    """

    round_e: FloatArray
    time_e: FloatArray
    sent_bytes_e: FloatArray
    metrics: dict[str, FloatArray]


@dataclass(frozen=True)
class Reached:
    """When the target was first met at an evaluation."""

    time: float
    rounds: float
    sent_bytes: float


@dataclass(frozen=True)
class Run:
    """One run folder.

    Args:
        folder: Where it is.
        name: What it is called in the report.
        status: ``completed``, ``diverged``, ``interrupted``, ``failed``, ``unfinished`` (running, killed or crashed)
            or ``damaged``.
        fault: What is wrong with a damaged one.
        summary: Its ``summary.json``; of an unfinished run what its configuration tells.
        config: Its configuration, flat.
        choices: What was chosen in each group.
        typed: Keys that the user typed.
        series: Its rounds.
        evals: Its evaluations.
    """

    folder: Path
    name: str
    status: str
    fault: str = ""
    summary: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, str] = field(default_factory=dict)
    typed: tuple[str, ...] = ()
    series: Series | None = None
    evals: Evaluations | None = None

    def text(self, key: str) -> str:
        """Return a text of the summary; ``?`` if there is none."""
        value = self.summary.get(key)
        return value if isinstance(value, str) else "?"

    @property
    def counted(self) -> bool:
        """Whether its result is known, so that it belongs into statistics."""
        return self.status in (COMPLETED, DIVERGED)

    @property
    def seed(self) -> str:
        """The seed, as text."""
        return str(self.summary.get("seed", "?"))

    @property
    def metric(self) -> str:
        """The metric of the target, such as ``test_top1``."""
        return self.text("metric")

    @property
    def target(self) -> float | None:
        """The value to reach, if there is one."""
        value = self.summary.get("target")
        return float(value) if isinstance(value, (int, float)) else None

    @property
    def time_unit(self) -> str:
        """``units`` of simulated time, or seconds."""
        return self.text("time_unit")

    @property
    def synthetic(self) -> bool:
        """Whether its data or its trace was generated, not measured."""
        trace = self.summary.get("trace")
        return self.text("data_source") == "synthetic" or (
            isinstance(trace, dict) and trace.get("source") == "synthetic"
        )

    @property
    def length(self) -> int:
        """How many rounds (VAFL: events) are there."""
        return len(self.series.number_r) if self.series else 0

    @property
    def final(self) -> float | None:
        """The last value of the target's metric; None if there is none, it is not finite, or the run diverged."""
        if self.status == DIVERGED:  # the last one is from before that
            return None
        values = self.evals.metrics.get(self.metric) if self.evals else None
        return float(values[-1]) if values is not None and len(values) and np.isfinite(values[-1]) else None

    @property
    def names(self) -> list[str]:
        """The parties, then the server."""
        parties = self.summary.get("parties")
        count = len(self.series.tau_rp[0]) if self.series and self.series.tau_rp else 0
        if isinstance(parties, list) and len(parties) + 1 == count:
            return [*map(str, parties), "server"]
        return [*(f"party {k + 1}" for k in range(count - 1)), "server"][:count]

    def reached(self) -> Reached | None:
        """Return when the target was first met, or None."""
        if self.target is None or self.evals is None or self.metric not in self.evals.metrics:
            return None
        e = self.evals
        for place, value in enumerate(e.metrics[self.metric]):
            if math.isfinite(value) and meets(self.metric, float(value), self.target):
                return Reached(float(e.time_e[place]), float(e.round_e[place]), float(e.sent_bytes_e[place]))
        return None

    def with_target(self, metric: str, target: float) -> Run:
        """Return the same run, read with another target.

        Raises:
            DataError: It has no such metric.
        """
        if self.evals is not None and self.evals.metrics and metric not in self.evals.metrics:
            known = ", ".join(sorted(self.evals.metrics))
            raise DataError(f"--target: {self.name} has no metric '{metric}'; it has: {known}")
        return replace(self, summary={**self.summary, "metric": metric, "target": target})
