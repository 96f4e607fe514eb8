"""Draws utilization over time, as the paper's figure of four machines does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flexray.core.errors import DataError
from flexray.core.legends import legend_below, wrap_title
from flexray.traces.figures import DAY_S
from flexray.traces.reading import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
COLOURS, STYLES = 10, ("-", "--", ":", "-.")
"""A machine has one of matplotlib's ten colours; every ten another style."""


def check_output(path: Path) -> None:
    """Refuse names of other than pictures, and folders that do not exist.

    Raises:
        DataError: The name ends otherwise, or its folder does not exist.
    """
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: expected a name that ends in {' or '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise DataError(f"{path}: no such folder")


def plot_trace(trace: Trace, path: Path, days: float | None = None) -> None:
    """Draw one line per machine into a PNG or SVG file.

    Args:
        trace: The machines to draw.
        path: Where; the suffix says which.
        days: Draw so much from the start only.

    Raises:
        DataError: The file cannot be written.
    """
    import matplotlib

    check_output(path)
    with matplotlib.rc_context({"svg.hashsalt": "flexray"}):
        try:
            draw_trace(trace, days).savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error


def draw_trace(trace: Trace, days: float | None = None) -> Figure:
    """Return the figure that :func:`plot_trace` writes."""
    from matplotlib.figure import Figure

    length = trace.cpu_mt.shape[1]
    if days is not None:
        length = min(length, max(2, round(days * DAY_S / trace.step_s)))
    picture = Figure(figsize=(8, 3.2), layout="constrained")
    axes = picture.add_subplot()
    hours = [t * trace.step_s / 3600 for t in range(length)]
    for k, cpu_t in enumerate(trace.cpu_mt):
        style = STYLES[k // COLOURS % len(STYLES)]
        axes.plot(hours, 100 * cpu_t[:length], linewidth=0.8, linestyle=style)
    axes.set(
        xlabel="time (hours)",
        ylabel="CPU utilization (%)",
        ylim=(0, None),
        xlim=(0, max(length - 1, 1) * trace.step_s / 3600),
    )
    title = f"{trace.source}{' (synthetic)' if trace.synthetic else ''}"
    axes.set_title(wrap_title(picture, title, 0.9, "small"), fontsize="small")
    legend_below(picture, axes.lines, trace.machines, fontsize="x-small")
    return picture
