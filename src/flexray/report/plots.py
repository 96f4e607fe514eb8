"""Figures for print: a mean line per group with its standard deviation shaded, a panel per setting.

Drawn again from the same run folders, a file comes out byte-identical.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexray.errors import DataError
from flexray.report.curves import band, curve
from flexray.report.grouping import Group, is_setting
from flexray.report.statistics import Result
from flexray.report.tables import goal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png", "pdf")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#666666")
"""Told apart by most colour-blind readers (Okabe and Ito); groups beyond them get other line styles."""
STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
UNDATED = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None}}
LOSS = "train_loss"


def draw_all(results: Sequence[Result], folder: Path, axes: Sequence[str], formats: Sequence[str]) -> Iterator[Path]:
    """Draw the target's metric and the training loss over each axis.

    Raises:
        DataError: A file cannot be written.
    """
    import matplotlib

    # Texts stay texts in SVG, which makes files small; the ids are the same every time.
    with matplotlib.rc_context({"svg.hashsalt": "flexray", "svg.fonttype": "none", "font.size": 9}):
        for name, metric in (("target", None), (LOSS, LOSS)):
            for axis in axes:
                yield from _draw(results, metric, axis, [folder / f"{name}_by_{axis}.{form}" for form in formats])


def settings_of(results: Sequence[Result]) -> dict[str, list[Group]]:
    """Return the groups of each setting, by a title that says what differs between settings."""
    keys = [key for key in results[0].group.values if is_setting(key)]
    keys = [k for k in keys if len({r.group.values[k] for r in results}) > 1] or ["dataset"]
    found: dict[str, list[Group]] = {}
    for result in results:
        found.setdefault(result.group.label(keys), []).append(result.group)
    return found


def method(group: Group) -> str:
    """Return what tells a group from the others of its setting; it looks the same in all settings."""
    return group.label([key for key in group.values if not is_setting(key)])


def label(group: Group) -> str:
    """Return a group's method, and whether its data were generated."""
    return method(group) + (" (synthetic)" if group.synthetic else "")


def _draw(results: Sequence[Result], metric: str | None, axis: str, paths: Sequence[Path]) -> Iterator[Path]:
    from matplotlib.figure import Figure

    panels = settings_of(results)
    looks = {name: (COLOURS[k % len(COLOURS)], STYLES[k // len(COLOURS) % len(STYLES)])
             for k, name in enumerate(dict.fromkeys(method(r.group) for r in results))}  # fmt: skip
    across = min(3, len(panels))
    down = math.ceil(len(panels) / across)
    picture = Figure(figsize=(max(5.2, 3.4 * across), 3.0 * down + 0.5), layout="constrained")
    grid = picture.subplots(down, across, squeeze=False)
    drawn = [
        _panel(axes, groups, title, metric, axis, looks)
        for axes, (title, groups) in zip(grid.flat, panels.items(), strict=False)
    ]
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    if not any(drawn):
        return
    handles = {text: line for axes in grid.flat for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    picture.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4, frameon=False)
    picture.draw_without_rendering()
    picture.set_layout_engine("none")  # the layout is found once, not for every format
    for path in paths:
        try:
            picture.savefig(path, dpi=160, metadata=UNDATED[path.suffix[1:]])
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
        yield path


def _panel(
    axes: Axes, groups: Sequence[Group], title: str, metric: str | None, axis: str, looks: dict[str, tuple[str, Any]]
) -> bool:
    """Draw the groups of one setting; return whether there was anything to draw."""
    run = groups[0].runs[0]
    name = metric or run.metric
    drawn = False
    for group in groups:
        colour, style = looks[method(group)]
        curves = [found for member in group.counted if (found := curve(member, name, axis))]
        mean = band(curves)
        if mean is None:
            continue
        drawn = True
        scale = 1e-6 if axis == "bytes" else 1.0
        x = mean.x_g * scale
        line = {"color": colour, "linestyle": style, "linewidth": 1.3, "drawstyle": "steps-post"}
        axes.plot(x, mean.mean_g, label=plain(label(group)), **line)
        if mean.std_g is not None:
            low, high = mean.mean_g - mean.std_g, mean.mean_g + mean.std_g
            axes.fill_between(x, low, high, step="post", color=colour, alpha=0.18, linewidth=0)
    if metric is None and run.target is not None:
        axes.axhline(run.target, color="#888888", linewidth=0.8, linestyle=(0, (1, 2)), label=plain(goal(run)))
    unit = {"time": f"time ({run.time_unit})", "rounds": "rounds", "bytes": "sent (MB)"}[axis]
    axes.set(xlabel=unit, ylabel=plain(name))
    axes.set_title(plain(title), fontsize="medium")
    axes.locator_params(nbins=5)
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    return drawn


def plain(text: str) -> str:
    """Return a text in which matplotlib finds no formula."""
    return text.replace("$", r"\$")
