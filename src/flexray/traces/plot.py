"""Plots of utilization over time, like the paper's figure of four machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flexray.core.legends import legend_below, save_figure, wrap_title
from flexray.traces.figures import DAY_S
from flexray.traces.reading import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
COLOURS, STYLES = 10, ("-", "--", ":", "-.")
"""Machines take matplotlib's ten colours in turn; every ten machines the next style."""


def plot_trace(trace: Trace, path: Path, days: float | None = None) -> None:
    """Draw one line per machine into a PNG or SVG file.

    Args:
        trace: The machines to draw.
        path: Where; the suffix gives the format.
        days: Draw only the first days.

    Raises:
        DataError: The file cannot be written.
    """
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "flexray"}):
        save_figure(draw_trace(trace, days), path, 150, {"Date": None} if path.suffix == ".svg" else None)


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
