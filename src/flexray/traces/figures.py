"""The figures that characterize a trace: level, spread between and within machines, memory.

Shapes: m = machines, t = samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flexray.traces.files import FloatArray

DAY_S = 86_400
HOUR_S = 3_600
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
LABELS = {
    "mean": "mean utilization",
    "between": "spread between machines (sd of means)",
    "within": "spread within a machine (mean sd)",
    "lag1": "autocorrelation, one step",
    "hourly": "autocorrelation, one hour",
    "daily": "autocorrelation, one day",
}


@dataclass(frozen=True)
class Figures:
    """The figures of a trace.

    Args:
        mean: Over all machines and times.
        between: Standard deviation of the machines' means.
        within: Mean of the machines' standard deviations.
        lag1: Autocorrelation from one sample to the next, mean over machines; None if unknown.
        hourly: The same over an hour.
        daily: The same over a day; None for less than two days.
        quantiles: Of all values, at ``QUANTILES``.
        minimum: The lowest value.
        maximum: The highest value.
    """

    mean: float
    between: float
    within: float
    lag1: float | None
    hourly: float | None
    daily: float | None
    quantiles: tuple[float, ...]
    minimum: float
    maximum: float


def figures(cpu_mt: FloatArray, step_s: float) -> Figures:
    """Return the figures of utilizations with a sample every ``step_s`` seconds."""
    return Figures(
        mean=float(cpu_mt.mean()),
        between=float(cpu_mt.mean(axis=1).std()),
        within=float(cpu_mt.std(axis=1).mean()),
        lag1=_autocorrelation(cpu_mt, 1),
        hourly=_autocorrelation(cpu_mt, round(HOUR_S / step_s)),
        daily=_autocorrelation(cpu_mt, round(DAY_S / step_s)),
        quantiles=tuple(float(q) for q in np.quantile(cpu_mt, QUANTILES)),
        minimum=float(cpu_mt.min()),
        maximum=float(cpu_mt.max()),
    )


def _autocorrelation(cpu_mt: FloatArray, lag: int) -> float | None:
    """Return the mean over machines, constant ones left out; None with fewer than two lags of samples."""
    if lag < 1 or cpu_mt.shape[1] < 2 * lag:
        return None
    moving_mt = cpu_mt - cpu_mt.mean(axis=1, keepdims=True)
    energy_m = (moving_mt**2).sum(axis=1)
    live_m = energy_m > 1e-12 * cpu_mt.shape[1]
    if not live_m.any():
        return None
    product_m = (moving_mt[live_m, lag:] * moving_mt[live_m, :-lag]).sum(axis=1)
    return float((product_m / energy_m[live_m]).mean())
