"""Groups of runs whose configurations differ in their seeds only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flexray.core.errors import DataError, near_match
from flexray.core.neutral import HARMLESS, is_under
from flexray.report.runs import Run

NAMES = ("algo", "dataset")
CHOICES = ("speeds", "optimizer", "model", "server", "clock")
READINGS = ("target_metric", "target", "time_unit")
NEUTRAL = (*HARMLESS, "checkpoint", "timeline_rounds", "smoothness")
"""Keys that cannot change a run's numbers, nor can those below them."""
SETTING = ("dataset", "speeds", "network", "clock", *READINGS)
"""Keys of a run's setting, within which methods are compared; all other keys are those of the method."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds only.

    Args:
        values: Its values by column, as text.
        runs: Its runs, in order.
        counted: Those in its statistics: finished, each seed once.
    """

    values: dict[str, str]
    runs: tuple[Run, ...]
    counted: tuple[Run, ...]

    @property
    def setting(self) -> tuple[tuple[str, str], ...]:
        """The setting in which it is compared with others."""
        return tuple((key, value) for key, value in self.values.items() if is_setting(key))

    def label(self, columns: Sequence[str]) -> str:
        """Return its name: the values of these columns."""
        parts = [self.values[c] if c in NAMES else f"{c}={self.values[c]}" for c in columns]
        return ", ".join(parts) or self.values["algo"]

    @property
    def synthetic(self) -> bool:
        """Whether any of its runs used generated data or a generated trace."""
        return any(run.synthetic for run in self.runs)


def is_setting(key: str) -> bool:
    """Whether a key belongs to the setting."""
    return key.partition(".")[0] in SETTING


def make_groups(runs: Sequence[Run], by: Sequence[str] = (), over: Sequence[str] = ("seed",)) -> list[Group]:
    """Return the groups, ordered by setting and then as the runs were given.

    Args:
        runs: Runs whose configuration could be read.
        by: Keys to group by instead of all that differ.
        over: Keys that do not separate groups.

    Raises:
        DataError: No run has a key of ``by`` or ``over``.
    """
    values = [all_values(run) for run in runs]
    _check_known("--over", over, values)
    _check_known("--by", by, values)
    columns = list(dict.fromkeys([*NAMES, *by])) if by else _columns(runs, values, over)
    keys = _ordered(runs, values, ())
    found: dict[tuple[str, ...], list[Run]] = {}
    for run, value in zip(runs, values, strict=True):
        found.setdefault(tuple(shown(value.get(c)) for c in columns), []).append(run)
    groups = [
        Group(dict(zip(columns, key, strict=True)), tuple(members), _counted(members, keys))
        for key, members in found.items()
    ]
    order = list(dict.fromkeys(group.setting for group in groups))
    return sorted(groups, key=lambda group: order.index(group.setting))


def _counted(runs: Sequence[Run], keys: Sequence[str]) -> tuple[Run, ...]:
    """Return the finished runs; of those with equal values of all ``keys``, seeds included, the last."""
    found: dict[tuple[str, ...], Run] = {}
    for run in filter(lambda run: run.counted, runs):
        values = all_values(run)
        found[tuple(shown(values.get(key)) for key in keys)] = run
    return tuple(found.values())


def texts(run: Run, columns: Sequence[str]) -> list[str]:
    """Return a run's values in some columns as the report shows them; ``?`` where it has none."""
    values = all_values(run)
    return [shown(values[column]) if column in values else "?" for column in columns]


def all_values(run: Run) -> dict[str, Any]:
    """Return all values in which runs can differ."""
    choices = {key: run.choices[key] for key in CHOICES if key in run.choices}
    names = {key: run.text(key) for key in NAMES}
    read = {"target_metric": run.metric, "target": run.target, "time_unit": run.time_unit, "seed": run.seed}
    return {**run.config, **choices, **names, **read}


def differing(runs: Sequence[Run]) -> list[str]:
    """Return the keys in which runs differ, seeds and neutral keys left out."""
    values = [all_values(run) for run in runs]
    keys = _ordered(runs, values, ("seed",))
    return [key for key in keys if len({shown(value.get(key)) for value in values}) > 1]


def shown(value: Any) -> str:
    """Return a value as the report shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"{value:.12g}"
    return "null" if value is None else str(value)


def _check_known(option: str, keys: Sequence[str], values: Sequence[dict[str, Any]]) -> None:
    known = {key for value in values for key in value}
    for key in keys:
        if key not in known:
            raise DataError(f"{option}: unknown key '{key}'{near_match(key, known, list_all=False)}")


def _columns(runs: Sequence[Run], values: Sequence[dict[str, Any]], over: Sequence[str]) -> list[str]:
    """Return algorithm, dataset, and the fewest further keys that distinguish differing runs, typed ones first."""
    classes = [0] * len(runs)
    columns = list(NAMES)
    for key in _ordered(runs, values, over):
        names: dict[tuple[int, str], int] = {}
        refined = [names.setdefault((c, shown(v.get(key))), len(names)) for c, v in zip(classes, values, strict=True)]
        if len(names) > len(set(classes)):
            classes = refined
            if key not in columns:
                columns.append(key)
    return columns


def _ordered(runs: Sequence[Run], values: Sequence[dict[str, Any]], over: Sequence[str]) -> list[str]:
    """Return the keys to compare, in order. One that only some runs have counts if it was typed."""
    typed = dict.fromkeys(key for run in runs for key in run.typed)
    others = sorted({key for value in values for key in value})
    below = {key for key in others if any(key.startswith(f"{t}.") for t in typed)}
    usual = {key for key in others if all(key in value for value in values)} | set(typed) | below
    keys = dict.fromkeys([*NAMES, *CHOICES, *typed, *READINGS, *others])
    return [k for k in keys if k in usual and k not in over and not is_under(k, NEUTRAL)]
