"""Figures for print: a mean line per group with its standard deviation shaded, a panel per setting.

The same run folders give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexray.core.legends import legend_below, plain, save_figure, wrap_title
from flexray.report.grouping import Group
from flexray.report.looks import Look, decided_early, label, looks, settings_of
from flexray.report.statistics import Band, Result, band
from flexray.report.tables import goal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

FORMATS = ("svg", "png", "pdf")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#8c6bb1", "#56b4e9", "#666666")
"""Distinct to most colour-blind readers (Okabe and Ito), the two kinds of blue far apart."""
STYLES: tuple[Any, ...] = (
    "-", (0, (5, 2)), (0, (1.2, 1.4)), (0, (5, 2, 1.2, 2)), (0, (9, 3)), (0, (9, 2, 1.2, 2, 1.2, 2)),
)  # fmt: skip
MARKS = ("", "o", "s", "^", "D", "v", "P", "X")
SEGMENT = 4.0
"""Length, in line widths, of the stretches in which equal lines are visible in turn."""
STYLE: Any = {"svg.hashsalt": "flexray", "svg.fonttype": "none", "font.size": 9}
"""Texts stay texts in SVG, which makes files small; a fixed salt gives the same ids every time."""
UNDATED = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None}}
LOSS = "train_loss"

Entry = tuple[str, str | None, "Line2D"]
"""Of a legend: a name, the name of an earlier equal line if any, and the line shown beside it."""


def draw_all(results: Sequence[Result], folder: Path, axes: Sequence[str], formats: Sequence[str]) -> Iterator[Path]:
    """Draw the target's metric and the training loss over each axis.

    Raises:
        DataError: A file cannot be written.
    """
    import matplotlib

    groups = [result.group for result in results]
    with matplotlib.rc_context(STYLE):
        for name, metric in (("target", None), (LOSS, LOSS)):
            for axis in axes:
                yield from _draw(groups, metric, axis, [folder / f"{name}_by_{axis}.{form}" for form in formats])


def _draw(groups: Sequence[Group], metric: str | None, axis: str, paths: Sequence[Path]) -> Iterator[Path]:
    picture = draw(groups, metric, axis)
    if picture is not None:
        yield from save(picture, paths)


def save(picture: Figure, paths: Sequence[Path]) -> Iterator[Path]:
    """Write a figure to files of several formats.

    Raises:
        DataError: A file cannot be written.
    """
    picture.draw_without_rendering()
    picture.set_layout_engine("none")  # lay out once for all formats
    for path in paths:
        save_figure(picture, path, 160, UNDATED[path.suffix[1:]])
        yield path


def draw(groups: Sequence[Group], metric: str | None, axis: str) -> Figure | None:
    """Return the figure of a metric (None: the target's) over an axis; None if there is nothing to draw."""
    from matplotlib.figure import Figure

    panels = settings_of(groups)
    known = {id(group): look for group, look in zip(groups, looks(groups), strict=True)}
    across = min(3, len(panels))
    down = math.ceil(len(panels) / across)
    picture = Figure(figsize=(max(5.2, 3.4 * across), 3.0 * down), layout="constrained")
    grid = picture.subplots(down, across, squeeze=False)
    entries: list[Entry] = []
    for axes, (title, members) in zip(grid.flat, panels.items(), strict=False):
        entries += _panel(axes, members, metric, axis, known)
        axes.set_title(wrap_title(picture, title, 0.85 / across, "medium"), fontsize="medium")
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    if not any(axes.lines for axes in grid.flat):
        return None
    handles = _words(entries)
    legend_below(picture, list(handles.values()), list(handles), handlelength=3.2)
    return picture


def _panel(axes: Axes, groups: Sequence[Group], metric: str | None, axis: str, known: dict[int, Look]) -> list[Entry]:
    """Draw the groups of one setting and return the entries of the legend."""
    run = groups[0].runs[0]
    name = metric or run.metric
    bands: list[tuple[Group, Band]] = []
    for group in groups:
        mean = band([found for member in group.counted if (found := member.curve(name, axis))])
        if mean is not None:
            bands.append((group, mean))
    entries = _lines(axes, bands, 1e-6 if axis == "bytes" else 1.0, known)
    if bands and metric is None and run.target is not None:
        line = axes.axhline(run.target, color="#888888", linewidth=0.8, linestyle=(0, (1, 2)))
        entries.append((goal(run), None, line))
    unit = {"time": f"time ({run.time_unit})", "rounds": "rounds", "bytes": "sent (MB)"}[axis]
    axes.set(xlabel=unit, ylabel=plain(name))
    axes.locator_params(nbins=5)
    if bands and decided_early(groups, axis):
        axes.set_xscale("log")  # the start, at 0, is not on it
        axes.xaxis.set_major_formatter("{x:,g}")
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    return entries


def _lines(axes: Axes, bands: Sequence[tuple[Group, Band]], scale: float, known: dict[int, Look]) -> list[Entry]:
    """Draw a line per group; equal ones are visible for a stretch in turn."""
    from matplotlib.lines import Line2D

    contents = [mean.x_g.tobytes() + mean.mean_g.tobytes() for _, mean in bands]
    entries: list[Entry] = []
    for (group, mean), content in zip(bands, contents, strict=True):
        equal = [label(other) for (other, _), there in zip(bands, contents, strict=True) if there == content]
        place = equal.index(label(group))
        style = _style(known[id(group)], len(mean.x_g))
        entries.append((label(group), equal[0] if place else None, Line2D([], [], **{**style, "markevery": 1})))
        if len(equal) > 1:
            style["linestyle"] = (SEGMENT * (len(equal) - place), (SEGMENT, SEGMENT * (len(equal) - 1)))
        x = mean.x_g * scale
        axes.plot(x, mean.mean_g, drawstyle="steps-post", **style)
        if mean.std_g is not None:
            low, high = mean.mean_g - mean.std_g, mean.mean_g + mean.std_g
            axes.fill_between(x, low, high, step="post", color=style["color"], alpha=0.18, linewidth=0)
    return entries


def _style(look: Look, points: int) -> dict[str, Any]:
    mark = MARKS[1 + (look.mark - 1) % (len(MARKS) - 1)] if look.mark else ""
    line = {"color": COLOURS[look.hue], "linestyle": STYLES[look.dash], "linewidth": 1.3}
    return {**line, "marker": mark, "markersize": 3.5, "markevery": max(1, points // 12)}


def _words(entries: Sequence[Entry]) -> dict[str, Line2D]:
    """Return the lines of a legend by their words, which name the line that is equal in all panels."""
    found: dict[str, Line2D] = {}
    for name, _, line in entries:
        same = {other for again, other, _ in entries if again == name}
        words = f"{name} (same as {same.pop()})" if len(same) == 1 and None not in same else name
        found.setdefault(words, line)
    return found
