"""Panels and looks of groups in figures, on paper and on the page: a panel per setting, a look per method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flexray.core.scores import lower_is_better
from flexray.report.grouping import Group, is_setting
from flexray.report.runs import AXES, Run

HUES, DASHES = 8, 6
"""Numbers of colours and line styles; groups beyond them get a mark."""
EARLY = 0.1
"""Part of an axis; if all runs are decided within it, the axis is logarithmic."""
DECIDED = 0.95
"""Part of its whole rise after which a metric without a target counts as decided."""


@dataclass(frozen=True)
class Look:
    """Numbers of the colour, the line style and the mark of a group's lines; mark 0 is none."""

    hue: int
    dash: int
    mark: int


def settings_of(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Return the groups of each setting, by a title of the values that differ between settings."""
    keys = [key for key in groups[0].values if is_setting(key)]
    keys = [key for key in keys if _differs(key, groups)] or ["dataset"]
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.label(keys), []).append(group)
    return found


def method(group: Group) -> str:
    """Return the name of a group within its setting; a method has the same look in all settings."""
    return group.label(_keys(group))


def label(group: Group) -> str:
    """Return a group's method, and whether its data were generated."""
    return method(group) + (" (synthetic)" if group.synthetic else "")


def looks(groups: Sequence[Group]) -> list[Look]:
    """Return a look for each group, the same for one method in all settings.

    The colour stands for the algorithm, or for the first key that differs if there is but one algorithm; the line style
    for the next key, the mark for all others.
    """
    keys = [key for key in _keys(groups[0]) if _differs(key, groups)]
    hues, seconds, thirds = (_numbered(groups, part) for part in (keys[:1], keys[1:2], keys[2:]))
    found = []
    for hue, second, third in zip(hues, seconds, thirds, strict=True):
        place = hue // HUES * (max(seconds) + 1) + second
        found.append(Look(hue % HUES, place % DASHES, place // DASHES * (max(thirds) + 1) + third))
    return found


def decided_early(groups: Sequence[Group], axis: str) -> bool:
    """Whether all groups of a setting reach their target, or their best, in the first tenth of an axis."""
    if len(groups) < 2:
        return False
    runs = [run for group in groups for run in group.counted]
    curves = [found for run in runs if (found := run.curve(run.metric, axis)) is not None]
    reached = filter(None, (run.reached() for run in runs))
    places = [dict(zip(AXES, costs, strict=True))[axis] for costs in reached]
    places = places or [place for run in runs if (place := _settled(run, axis)) is not None]
    return bool(places) and 0 < max(places) <= EARLY * max(float(x[-1]) for x, _ in curves)


def _keys(group: Group) -> list[str]:
    return [key for key in group.values if not is_setting(key)]


def _differs(key: str, groups: Sequence[Group]) -> bool:
    return len({group.values[key] for group in groups}) > 1


def _numbered(groups: Sequence[Group], keys: Sequence[str]) -> list[int]:
    """Return a number per group for its values of these keys, in order of appearance."""
    numbers: dict[tuple[str, ...], int] = {}
    return [numbers.setdefault(tuple(group.values[key] for key in keys), len(numbers)) for group in groups]


def _settled(run: Run, axis: str) -> float | None:
    """Return the place from which a run's metric is nearly at its best; None if it is NaN or never improves."""
    found = run.curve(run.metric, axis)
    if found is None:
        return None
    x_e, y_e = found
    y_e = -y_e if lower_is_better(run.metric) else y_e
    first, best = y_e[0], np.max(y_e)
    if not best > first:
        return None
    return float(x_e[np.argmax(y_e >= first + DECIDED * (best - first))])
