"""Run folders as the report has them: finished, diverged, stopped, still running, or damaged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flexray.core.costs import TITLES
from flexray.core.errors import DataError
from flexray.core.scores import meets

FloatArray = npt.NDArray[np.float64]

COMPLETED, DIVERGED, INTERRUPTED, FAILED = ENDS = ("completed", "diverged", "interrupted", "failed")
"""The status of a run that ended: interrupted by a signal, or failed because it lost processes too often."""
STOPPED = {INTERRUPTED: "interrupted", FAILED: "given up for lost processes"}
"""The words for a run that stopped early and can be resumed."""
UNFINISHED, DAMAGED = "unfinished", "damaged"
"""The status of run folders without the summary of an end, and of damaged ones."""
AXES = {"time": "time_e", "rounds": "round_e", "bytes": "sent_bytes_e"}
"""The axes of curves, and their places among evaluations."""


@dataclass(frozen=True)
class Series:
    """The rounds of a run. Shapes: r = rounds (VAFL: events), p = parties, then the server.

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
        round_e: Rounds done.
        time_e: Simulated time.
        sent_bytes_e: Bytes sent until then.
        metrics: Values such as ``test_top1``, NaN where they were NaN.
        costs: Energy and money spent until then, of runs that report them.
    """

    round_e: FloatArray
    time_e: FloatArray
    sent_bytes_e: FloatArray
    metrics: dict[str, FloatArray]
    costs: dict[str, FloatArray] = field(default_factory=dict)


class Reached(NamedTuple):
    """Time, rounds and bytes at the first evaluation that met the target; in the order of ``AXES``."""

    time: float
    rounds: float
    sent_bytes: float


@dataclass(frozen=True)
class Run:
    """One run folder.

    Args:
        folder: Its path.
        name: Its name in the report.
        status: One of ``ENDS``, ``unfinished`` (running, killed or crashed) or ``damaged``.
        fault: The fault of a damaged one.
        summary: Its ``summary.json``; of an unfinished run, what follows from its configuration.
        config: Its configuration, flat.
        choices: The choice in each group.
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
        """Whether its result is known, so that it counts in statistics."""
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
        made_up_trace = isinstance(trace, dict) and trace.get("source") == "synthetic"
        return self.text("data_source") == "synthetic" or made_up_trace

    @property
    def learned(self) -> bool:
        """Whether anything was trained, and so evaluated; else the run only took its time (``learn=false``)."""
        return self.summary.get("learn") is not False

    @property
    def missing(self) -> str:
        """The part of its training samples that each party lacks; of many parties, the least and the most."""
        found = self.summary.get("samples_by_party")
        shares: dict[str, float] = {}
        for name, of in found.items() if isinstance(found, dict) else ():
            count = of.get("train") if isinstance(of, dict) else None
            has, lost = (count.get(key) if isinstance(count, dict) else None for key in ("has", "missing"))
            if isinstance(has, int) and isinstance(lost, int) and has > 0 and lost >= 0:
                shares[str(name)] = lost / (has + lost)
        if len(shares) > 4:
            return f"{min(shares.values()):.1%} to {max(shares.values()):.1%}"
        return ", ".join(f"{name} {share:.1%}" for name, share in shares.items())

    @property
    def length(self) -> int:
        """Number of rounds (VAFL: events)."""
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

    def curve(self, metric: str, axis: str) -> tuple[FloatArray, FloatArray] | None:
        """Return the evaluations' places on an axis, and their values; None if there are none."""
        if self.evals is None or metric not in self.evals.metrics or not len(self.evals.round_e):
            return None
        return getattr(self.evals, AXES[axis]), self.evals.metrics[metric]

    def reached(self) -> Reached | None:
        """Return the first evaluation that met the target, or None."""
        place = self._place_reached()
        if place is None:
            return None
        return Reached(*(float(getattr(self.evals, name)[place]) for name in AXES.values()))

    def costs(self) -> dict[str, float]:
        """Return energy and money until the target was met or, without a target, until the last evaluation.

        A run that learned nothing has no evaluations; its costs are those of the whole run.
        """
        if self.evals is None or not len(self.evals.round_e):
            found = {name: self.summary.get(name) for name in TITLES}
            return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}
        place = -1 if self.target is None else self._place_reached()
        return {} if place is None else {name: float(spent_e[place]) for name, spent_e in self.evals.costs.items()}

    @property
    def mean_timeout(self) -> float | None:
        """The mean timeout of its rounds, if they chose theirs (``timeout=auto``)."""
        chosen = self.summary.get("timeout")
        mean = chosen.get("mean") if isinstance(chosen, dict) else None
        return float(mean) if isinstance(mean, int | float) else None

    @property
    def priced(self) -> frozenset[str]:
        """The costs that it reports."""
        return frozenset((*self.costs(), *(self.evals.costs if self.evals else ())))

    def _place_reached(self) -> int | None:
        """Return the place of the first evaluation that met the target, or None."""
        if self.target is None or self.evals is None or self.metric not in self.evals.metrics:
            return None
        for place, value in enumerate(self.evals.metrics[self.metric]):
            if math.isfinite(value) and meets(self.metric, float(value), self.target):
                return place
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
