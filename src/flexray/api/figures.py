"""The report's figures of runs that Python has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from flexray.core.errors import ConfigError, DataError
from flexray.report import runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Axis = Literal["time", "rounds", "bytes"]


def figure(read: Sequence[runs.Run], metric: str | None, by: Axis, folder: os.PathLike[str]) -> Figure:
    """Return the report's figure of a metric, a line for each group of runs.

    Args:
        read: The runs.
        metric: The metric; None: that of their target, which is shown, too.
        by: The axis.
        folder: Where they are, for messages.

    Raises:
        flexray.core.errors.UserError: There is no such metric or axis, or no evaluation yet.
    """
    from flexray.api.picture import Picture
    from flexray.report.grouping import make_groups
    from flexray.report.plots import draw

    if by not in runs.AXES:
        raise ConfigError(f"by: expected one of {', '.join(runs.AXES)}, got {by!r}")
    known = {name for run in read if run.evals is not None for name in run.evals.metrics}
    for wanted in {metric or run.metric for run in read}:
        check_metric(wanted, known)
    so_far = [replace(run, status=runs.COMPLETED) for run in read]
    picture = draw(make_groups(read if any(run.counted for run in read) else so_far), metric, by)
    if picture is None:
        states = ", ".join(sorted({run.status for run in read}))
        raise DataError(f"{os.fspath(folder)}: there is no evaluation to show, the run is {states}")
    picture.__class__ = Picture
    return picture


def check_metric(metric: str, known: set[str]) -> None:
    """Refuse a metric that is not ``known``."""
    if metric not in known:
        raise ConfigError(f"metric: expected one of {', '.join(sorted(known)) or 'no evaluation yet'}, got {metric!r}")
