"""Curves of several runs on one grid, by step-wise hold.

A value holds from its evaluation until the next; nothing is stretched, and nothing is continued past a run's end: the
mean exists where every run has a value.

Shapes: g = grid points, e = evaluations, n = runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flexray.report.runs import FloatArray, Run

AXES = {"time": "time_e", "rounds": "round_e", "bytes": "sent_bytes_e"}


@dataclass(frozen=True)
class Band:
    """Mean and sample standard deviation over runs; the deviation is None for one run."""

    x_g: FloatArray
    mean_g: FloatArray
    std_g: FloatArray | None


def hold(grid_g: FloatArray, x_e: FloatArray, y_e: FloatArray) -> FloatArray:
    """Return the value of the last evaluation until each grid point; NaN before the first and after the last."""
    place_g = np.searchsorted(x_e, grid_g, side="right") - 1
    inside_g = (place_g >= 0) & (grid_g <= x_e[-1])
    return np.where(inside_g, y_e[np.clip(place_g, 0, None)], np.nan)


def curve(run: Run, metric: str, axis: str) -> tuple[FloatArray, FloatArray] | None:
    """Return a run's evaluations: where they were on the axis, and the metric; None if it has none."""
    if run.evals is None or metric not in run.evals.metrics or not len(run.evals.round_e):
        return None
    return getattr(run.evals, AXES[axis]), run.evals.metrics[metric]


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
