"""The leaderboard as a picture: how long each algorithm takes to the target, on every system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexray.core.legends import legend_below
from flexray.report.plots import COLOURS, MARKS, STYLE, save
from flexray.report.statistics import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEHIND = 1.05
"""Where a mark stands that has no time, as a share of the axis."""


def draw_board(
    found: Mapping[tuple[str, str], Mapping[str, Result]],
    order: Sequence[str],
    titles: Mapping[str, str],
    paths: Sequence[Path],
) -> None:
    """Draw a panel per data set: a row per algorithm, a mark per system, mean and deviation of the time to the target.

    A system on which not every seed reaches the target has a hollow mark behind the end of the axis.

    Args:
        found: Results by data set and system, then by algorithm.
        order: The algorithms, best first.
        titles: Data sets to draw, and what stands above each.
        paths: The files, by format.
    """
    import matplotlib
    from matplotlib.figure import Figure

    looks: dict[str, dict[str, Any]] = {}
    for system in dict.fromkeys(system for _, system in found):
        looks[system] = {"color": COLOURS[len(looks)], "marker": MARKS[1 + len(looks)], "markersize": 4.5}
    with matplotlib.rc_context(STYLE):
        across = min(3, len(titles))
        down = -(-len(titles) // across)
        picture = Figure(figsize=(max(6.4, 3.4 * across), down * (0.9 + 0.22 * len(order))), layout="constrained")
        grid = picture.subplots(down, across, squeeze=False, sharey=True)
        for axes, (data, title) in zip(grid.flat, titles.items(), strict=False):
            _panel(axes, {system: found.get((data, system), {}) for system in looks}, order, looks)
            axes.set_title(title, fontsize="medium")
        for axes in list(grid.flat)[len(titles) :]:
            axes.set_visible(False)
        handles = [grid.flat[0].plot([], [], linestyle="none", **look)[0] for look in looks.values()]
        legend_below(picture, handles, list(looks))
        for _ in save(picture, paths):
            pass


def _panel(
    axes: Axes, found: Mapping[str, Mapping[str, Result]], order: Sequence[str], looks: Mapping[str, dict[str, Any]]
) -> None:
    for number, (system, results) in enumerate(found.items()):
        shift = 0.24 * (number - (len(found) - 1) / 2)
        for row, algo in enumerate(order):
            if algo not in results:
                continue
            time, look = results[algo].spreads["time"], looks[system]
            if time is not None:
                axes.errorbar(time.mean, row + shift, xerr=time.std or 0.0, linewidth=1.0, **look)
            else:
                hollow = {"markerfacecolor": "none", "linestyle": "none", "clip_on": False}
                axes.plot(BEHIND, row + shift, transform=axes.get_yaxis_transform(), **hollow, **look)
    axes.set_xlim(left=0)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlabel("time to the target (units)")
    axes.set_yticks(range(len(order)), list(order))
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
