"""Draws utilization over time, as the paper's figure of four machines does."""

from __future__ import annotations

from pathlib import Path

from flexray.errors import DataError
from flexray.simulation.traces import Trace
from flexray.traces.figures import DAY_S

SUFFIXES = (".png", ".svg")


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
    from matplotlib.figure import Figure

    check_output(path)
    length = trace.cpu_mt.shape[1]
    if days is not None:
        length = min(length, max(2, round(days * DAY_S / trace.step_s)))
    with matplotlib.rc_context({"svg.hashsalt": "flexray"}):
        picture = Figure(figsize=(8, 3.2), layout="constrained")
        axes = picture.add_subplot()
        for name, cpu_t in zip(trace.machines, trace.cpu_mt, strict=True):
            hours = [t * trace.step_s / 3600 for t in range(length)]
            axes.plot(hours, 100 * cpu_t[:length], linewidth=0.8, label=name)
        axes.set(
            xlabel="time (hours)",
            ylabel="CPU utilization (%)",
            ylim=(0, None),
            xlim=(0, max(length - 1, 1) * trace.step_s / 3600),
        )
        axes.set_title(f"{trace.source}{' (synthetic)' if trace.synthetic else ''}", fontsize="small")
        axes.legend(fontsize="x-small", ncols=min(4, len(trace.machines)), loc="upper right")
        try:
            picture.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
