"""Mean and deviation over seeds, of results and of curves. An average exists only where every run has the value.

Shapes: g = grid points, e = evaluations, n = runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from flexray.core.checks import few
from flexray.core.costs import TITLES
from flexray.core.scores import lower_is_better
from flexray.report.grouping import Group
from flexray.report.runs import DIVERGED, STOPPED, UNFINISHED, FloatArray, Reached, Run

MEASURES = Reached._fields
"""The costs of reaching the target."""


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (n - 1); the deviation of a single run is None."""

    mean: float
    std: float | None


@dataclass(frozen=True)
class Result:
    """The result of a group.

    Args:
        group: The group.
        runs: Number of runs that count.
        reached: Those that reached the target, in the order of the runs.
        spreads: Time, rounds and bytes to target; None where a run did not reach it.
        final: The target's metric at the end; None where a run has none.
        costs: Energy and money, of runs that report them; None where a run has none.
        best: Measures, and ``final``, in which no group of its setting is better.
        notes: Remarks for the reader.
    """

    group: Group
    runs: int
    reached: tuple[Reached, ...]
    spreads: dict[str, Spread | None]
    final: Spread | None
    costs: dict[str, Spread | None] = field(default_factory=dict)
    best: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Band:
    """Mean and sample standard deviation of curves; the deviation of a single one is None."""

    x_g: FloatArray
    mean_g: FloatArray
    std_g: FloatArray | None


def hold(grid_g: FloatArray, x_e: FloatArray, y_e: FloatArray) -> FloatArray:
    """Return the value of the last evaluation until each grid point; NaN before the first and after the last."""
    place_g = np.searchsorted(x_e, grid_g, side="right") - 1
    inside_g = (place_g >= 0) & (grid_g <= x_e[-1])
    return np.where(inside_g, y_e[np.clip(place_g, 0, None)], np.nan)


def band(curves: Sequence[tuple[FloatArray, FloatArray]]) -> Band | None:
    """Return mean and deviation of curves where all of them have a value; None if that is nowhere."""
    if not curves:
        return None
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    grid_g = np.unique(np.concatenate([x for x, _ in curves]))
    grid_g = grid_g[(grid_g >= start) & (grid_g <= end)]
    if not len(grid_g):
        return None
    held_ng = np.stack([hold(grid_g, x, y) for x, y in curves])
    std_g = held_ng.std(axis=0, ddof=1) if len(curves) > 1 else None
    return Band(grid_g, held_ng.mean(axis=0), std_g)


def spread(values: Sequence[float]) -> Spread | None:
    """Return mean and deviation of values; None without any."""
    if not values:
        return None
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def results(groups: Sequence[Group]) -> list[Result]:
    """Return the groups' results, the best of every setting marked."""
    plain = [_result(group) for group in groups]
    rivals = [[other for other in plain if other.group.setting == group.setting] for group in groups]
    return [replace(own, best=_best(own, others)) for own, others in zip(plain, rivals, strict=True)]


def _result(group: Group) -> Result:
    runs = group.counted
    reached = tuple(found for run in runs if (found := run.reached()))
    all_reached = len(reached) == len(runs)
    spreads = {m: spread([getattr(r, m) for r in reached]) if all_reached else None for m in MEASURES}
    finals = [run.final for run in runs]
    known = [value for value in finals if value is not None]
    final = spread(known) if len(known) == len(finals) else None
    return Result(group, len(runs), reached, spreads, final, _costs(runs), notes=tuple(_notes(group, reached)))


def _costs(runs: Sequence[Run]) -> dict[str, Spread | None]:
    """Return energy and money of runs, of which at least one reports them."""
    names = [name for name in TITLES if any(name in run.priced for run in runs)]
    found = {name: [spent[name] for run in runs if name in (spent := run.costs())] for name in names}
    return {name: spread(values) if len(values) == len(runs) else None for name, values in found.items()}


def _best(result: Result, rivals: Sequence[Result]) -> frozenset[str]:
    """Return the measures in which no rival has a lower mean; a single group is no contest."""
    if len(rivals) < 2:
        return frozenset()
    best = set()
    for measure in (*MEASURES, *result.costs):
        own, *others = ({**r.spreads, **r.costs}.get(measure) for r in (result, *rivals))
        if own is not None and own.mean <= min(o.mean for o in others if o is not None):
            best.add(measure)
    finals = [r.final.mean for r in rivals if r.final]
    if result.final and len(finals) > 1:
        sign = 1 if lower_is_better(result.group.runs[0].metric) else -1
        if sign * result.final.mean <= min(sign * mean for mean in finals):
            best.add("final")
    return frozenset(best)


def _notes(group: Group, reached: Sequence[Reached]) -> list[str]:
    """Return the remarks on a group's figures."""
    runs, notes = group.counted, []
    if group.synthetic:
        notes.append("synthetic: generated, not measured, data or trace")
    if 0 < len(reached) < len(runs):
        times = ", ".join(number(r.time) for r in sorted(reached, key=lambda r: r.time))
        notes.append(f"{len(reached)} of {len(runs)} runs reached the target (at {times}): no mean")
    if len(runs) == 1:
        notes.append("one seed only: no deviation")
    diverged = [run for run in runs if run.status == DIVERGED]
    if diverged:
        notes.append(f"diverged (the loss became NaN, infinite or a million times the first): {_named(diverged)}")
    for status, words in ((UNFINISHED, "still running, killed or crashed"), *STOPPED.items()):
        if others := [run for run in group.runs if run.status == status]:
            notes.append(f"not counted, {words}: {_named(others)}")
    repeated = [run for run in group.runs if run.counted and run not in runs]
    if repeated:
        notes.append(f"not counted, the same seed again: {_named(repeated)}")
    lengths = sorted({run.length for run in runs})
    if len(lengths) > 1:
        notes.append(f"runs of different length: {lengths[0]:,} to {lengths[-1]:,} rounds")
    return notes


def evaluations_apart(times: Sequence[float]) -> float | None:
    """Return the median distance of evaluations at these times; None for fewer than two."""
    return statistics.median(b - a for a, b in pairwise(times)) if len(times) > 1 else None


def reading(gaps: Sequence[float], unit: str) -> str:
    """Return a sentence on the distances of the runs' evaluations, the resolution of any time to target."""
    low, high = number(min(gaps)), number(max(gaps))
    apart = low if low == high else f"{low} to {high}"
    return f"time to target is read at evaluations, which are {apart} {unit} apart"


def _named(runs: Sequence[Run]) -> str:
    return few([run.name for run in runs], 4)


def number(value: float) -> str:
    """Return a number as tables show it: whole from 1,000 on, four digits below."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def with_deviation(found: Spread | None, decimals: int | None = None) -> str:
    """Return ``mean ± deviation`` with equally many decimals; ``--`` where there is no mean."""
    if found is None:
        return "--"
    if decimals is None:
        size = abs(found.mean)
        decimals = 0 if size >= 1000 or size == 0 else min(6, max(0, 3 - math.floor(math.log10(size))))
    mean = f"{found.mean:,.{decimals}f}"
    return mean if found.std is None else f"{mean} ± {found.std:,.{decimals}f}"
