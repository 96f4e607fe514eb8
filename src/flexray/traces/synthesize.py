"""Synthetic traces with given figures.

Machine i at time t has utilization m_i exp(v_i z_i(t) - v_i^2 / 2), cut at 1, where z_i has variance 1 and is the sum
of a daily sine, a slow part with a memory of five hours, and noise. The machines' means m_i are log-normal; v_i sets
their own spread. The five free numbers (two of the means, the scale of the spreads, the shares of sine and slow part)
are adjusted until mean, spread between machines, spread within a machine, and the autocorrelations from sample to
sample and over a day are as wanted.

Shapes: m = machines, t = samples.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from flexray.core.errors import DataError
from flexray.core.seeds import generator
from flexray.traces.figures import DAY_S, figures
from flexray.traces.files import FloatArray

FORGET_S = 5 * 3_600.0
"""Time in which the slow part's autocorrelation falls to 1/e, as for Google's 2011 jobs."""
SPREAD_OF_SPREADS = 0.5
"""Standard deviation of the logarithm of the machines' own spreads; a busier machine also moves more."""
DECIMALS = 4
LOWEST = 10.0**-DECIMALS
ITERATIONS = 40
TOLERANCE = 0.01
"""Largest deviation from the wanted figures; see :func:`distance`."""


@dataclass(frozen=True)
class Wanted:
    """The figures to meet; see ``Figures``."""

    mean: float
    between: float
    within: float
    lag1: float
    daily: float


@dataclass(frozen=True)
class _Knobs:
    mean: float
    between: float
    within: float
    daily: float
    slow: float


class _Noise:
    """Random numbers, drawn once; the knobs scale them, so that the figures change smoothly."""

    def __init__(self, machines: int, length: int, step_s: float, seed: int) -> None:
        def draw(name: str, *shape: int) -> FloatArray:
            return generator(seed, "synthesize", name).standard_normal(shape)

        self.level_m = _standardized(draw("level", machines))
        self.spread_m = np.exp(SPREAD_OF_SPREADS * _standardized(draw("spread", machines)))
        phase_m = draw("phase", machines)
        day_t = 2 * np.pi * step_s / DAY_S * np.arange(length)
        self.day_mt = _standardized(np.sin(day_t + phase_m[:, None] - np.pi / 2))
        self.slow_mt = _standardized(_forgetting(draw("slow", machines, length), np.exp(-step_s / FORGET_S)))
        self.fast_mt = _standardized(draw("fast", machines, length))

    def values(self, knobs: _Knobs) -> FloatArray:
        """Return utilizations."""
        mean_m = np.exp(knobs.between * self.level_m)
        mean_m *= knobs.mean / mean_m.mean()
        spread_m = self.spread_m * np.sqrt(mean_m)
        spread_m *= knobs.within / spread_m.mean()
        fast = max(0.0, 1 - knobs.daily - knobs.slow)
        z_mt = _standardized(
            np.sqrt(knobs.daily) * self.day_mt + np.sqrt(knobs.slow) * self.slow_mt + np.sqrt(fast) * self.fast_mt
        )
        v_m = np.sqrt(np.log1p((spread_m / mean_m) ** 2))
        values_mt = mean_m[:, None] * np.exp(v_m[:, None] * z_mt - v_m[:, None] ** 2 / 2)
        cut_mt: FloatArray = np.minimum(np.maximum(values_mt, LOWEST), 1.0)
        return cut_mt


def synthesize(wanted: Wanted, machines: int, length: int, step_s: float, seed: int) -> FloatArray:
    """Return utilizations [m, t] with the wanted figures, rounded to four decimals.

    Args:
        wanted: Figures to meet within 1%.
        machines: How many; at least 2, for there to be a spread between them.
        length: Samples per machine; at least two days.
        step_s: Seconds per sample.
        seed: The same seed and arguments give the same values.

    Raises:
        DataError: The figures cannot be met.
    """
    _check(wanted, machines, length, step_s)
    noise = _Noise(machines, length, step_s, seed)
    between = float(np.sqrt(np.log1p((wanted.between / wanted.mean) ** 2)))
    daily, slow = max(0.0, wanted.daily), max(0.0, wanted.lag1 - wanted.daily)
    knobs = _Knobs(wanted.mean, between, wanted.within, daily, slow)
    best_mt, best = noise.values(knobs), np.inf
    for _ in range(ITERATIONS):
        values_mt = noise.values(knobs)
        got = measure(values_mt, step_s)
        fault = distance(got, wanted)
        if fault < best:
            best_mt, best = values_mt, fault
        knobs = _turned(knobs, got, wanted)
    if best > TOLERANCE:
        got = measure(best_mt, step_s)
        raise DataError(
            f"synthesize: these figures cannot be met together; wanted {_shown(wanted)}; came to {_shown(got)}"
        )
    return np.round(best_mt, DECIMALS)


def measure(cpu_mt: FloatArray, step_s: float) -> Wanted:
    """Return the five figures of some utilizations; an unknown autocorrelation counts as 0."""
    found = figures(cpu_mt, step_s)
    return Wanted(found.mean, found.between, found.within, found.lag1 or 0.0, found.daily or 0.0)


def distance(got: Wanted, wanted: Wanted) -> float:
    """Return the largest deviation: relative for mean and spreads, absolute for autocorrelations."""
    relative = (got.mean / wanted.mean, got.between / wanted.between, got.within / wanted.within)
    return max(*(abs(r - 1) for r in relative), abs(got.lag1 - wanted.lag1), abs(got.daily - wanted.daily))


def _turned(knobs: _Knobs, got: Wanted, wanted: Wanted) -> _Knobs:
    daily = float(np.clip(knobs.daily + wanted.daily - got.daily, 0, 1))
    slow = knobs.slow + (wanted.lag1 - got.lag1) - (daily - knobs.daily)
    return replace(
        knobs,
        mean=knobs.mean * wanted.mean / got.mean,
        between=knobs.between * wanted.between / got.between,
        within=knobs.within * wanted.within / got.within,
        daily=daily,
        slow=float(np.clip(slow, 0, 1 - daily)),
    )


def _check(wanted: Wanted, machines: int, length: int, step_s: float) -> None:
    if machines < 2:
        raise DataError(f"synthesize: expected at least 2 machines, got {machines}")
    if length * step_s < 2 * DAY_S:
        raise DataError(f"synthesize: expected at least 2 days, got {length * step_s / DAY_S:g}")
    for name in ("mean", "between", "within"):
        if not 0 < getattr(wanted, name) < 1:
            raise DataError(f"synthesize: expected a {name} above 0 and below 1, got {getattr(wanted, name):g}")
    for name in ("lag1", "daily"):
        if not -1 < getattr(wanted, name) < 1:
            raise DataError(f"synthesize: expected {name} above -1 and below 1, got {getattr(wanted, name):g}")


def _shown(wanted: Wanted) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in asdict(wanted).items())


def _standardized(values: FloatArray) -> FloatArray:
    centred = values - values.mean(axis=-1, keepdims=True)
    result: FloatArray = centred / centred.std(axis=-1, keepdims=True)
    return result


def _forgetting(noise_mt: FloatArray, keep: float) -> FloatArray:
    slow_mt = np.empty_like(noise_mt)
    slow_mt[:, 0] = noise_mt[:, 0]
    for t in range(1, noise_mt.shape[1]):
        slow_mt[:, t] = keep * slow_mt[:, t - 1] + np.sqrt(1 - keep**2) * noise_mt[:, t]
    return slow_mt
