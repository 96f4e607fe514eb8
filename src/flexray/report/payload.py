"""The data of the page's scripts, as plain JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flexray.core.scores import lower_is_better
from flexray.report.contents import Report
from flexray.report.grouping import all_values, differing, is_setting, shown, texts
from flexray.report.looks import decided_early, label, looks, method, settings_of
from flexray.report.published import SOURCE
from flexray.report.runs import AXES, DAMAGED, FloatArray, Run
from flexray.report.schedule import short
from flexray.report.slowest import Selection
from flexray.report.tables import costs_of, goal, has_target, ordered_columns, paper_text, versions

MAX_CHANGES = 2000
"""Most changes of tau or rate that are drawn per participant and run; the page says if there were more."""


def payload(report: Report, shown_of: dict[int, Selection], max_rounds: int) -> dict[str, Any]:
    """Return the page's data.

    Args:
        report: The report to show.
        shown_of: The participants to show of each readable run, by the run's id().
        max_rounds: Rounds of each schedule to show.
    """
    places = {id(run): g for g, group in enumerate(report.groups) for run in group.runs}
    counted = {id(run) for group in report.groups for run in group.counted}
    settings = settings_of(report.groups)
    titles = {id(g): title for title, groups in settings.items() for g in groups}
    columns = ordered_columns(report.results)
    groups = [
        {
            "label": label(group),
            "method": method(group),
            "look": [look.hue, look.dash, look.mark],
            "setting": titles[id(group)],
            "values": [group.values[c] for c in columns],
            "notes": list(result.notes),
            "paper": paper_text(paper),
        }
        for group, look, result, paper in zip(
            report.groups, looks(report.groups), report.results, report.papers, strict=True
        )
    ]
    runs = [
        {
            **_about(run, shown_of.get(id(run), Selection((), None)), max_rounds),
            "values": texts(run, columns),
            "group": places.get(id(run), -1),
            "counted": id(run) in counted,
        }
        for run in report.runs
    ]
    early = {title: {axis: decided_early(members, axis) for axis in AXES} for title, members in settings.items()}
    return {
        "columns": columns, "groups": groups, "runs": runs, "differences": _differences(report), "source": SOURCE,
        "early": early, "targets": has_target(report.results),
        **({"costs": costs} if (costs := costs_of(report.results)) else {}),
    }  # fmt: skip


def _about(run: Run, selection: Selection, max_rounds: int) -> dict[str, Any]:
    found, series = run.reached(), run.series
    readable = run.status != DAMAGED
    return {
        "name": run.name,
        "status": run.status,
        "fault": run.fault,
        "algo": run.text("algo"),
        "dataset": run.text("dataset"),
        "seed": run.seed,
        "metric": run.metric,
        "target": run.target,
        "goal": goal(run),
        "lower": lower_is_better(run.metric),
        "unit": run.time_unit,
        "synthetic": run.synthetic,
        "source": run.text("data_source"),
        "reached": list(found) if found else None,
        "final": run.final,
        **({"costs": spent} if (spent := run.costs()) else {}),
        "rounds": run.length,
        "time": short(float(series.time_r[-1])) if series and run.length else None,
        "versions": versions(run),
        "names": [run.names[k] for k in selection.places],
        "shown": selection.words,
        "speeds": [selection.header, *selection.rows] if selection.rows else None,
        "schedule": selection.schedule.packed(max_rounds) if selection.schedule else None,
        "evals": _evals(run) if readable else None,
        "turns": bool(series and series.by_turns),
        "tau": _changes(series.tau_rp, selection.places, series.by_turns) if readable and series else None,
        "lr": _changes(series.lr_rp, selection.places, False) if readable and series else None,
    }


def _evals(run: Run) -> dict[str, Any] | None:
    if run.evals is None:
        return None
    return {
        "x": {axis: _numbers(getattr(run.evals, name), 9) for axis, name in AXES.items()},
        "y": {metric: _numbers(values, 5) for metric, values in run.evals.metrics.items()},
    }


def _numbers(values: FloatArray, digits: int) -> list[float | None]:
    return [short(v, digits) if math.isfinite(v) else None for v in values.tolist()]


def _changes(values_rp: Sequence[Sequence[float]], places: Sequence[int], by_turns: bool) -> list[list[list[float]]]:
    """Return for each participant shown the rounds (from 1) in which its value changed, and the values."""
    result = []
    for k in places if values_rp else ():
        rounds: list[float] = []
        values: list[float] = []
        for place, row in enumerate(values_rp):
            idle = by_turns and row[k] == 0
            if not idle and (not values or row[k] != values[-1]) and len(rounds) < MAX_CHANGES:
                rounds.append(place + 1)
                values.append(row[k])
        result.append([rounds, [short(v) for v in values]])
    return result


def _differences(report: Report) -> list[list[str]]:
    """Return the keys in which groups differ, with the value in each group."""
    readable = [run for group in report.groups for run in group.runs]
    firsts = [all_values(group.runs[0]) for group in report.groups]
    rows = [[key, *(shown(first[key]) if key in first else "" for first in firsts)] for key in differing(readable)]
    return sorted(rows, key=lambda row: not is_setting(row[0]))
