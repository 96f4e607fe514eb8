"""The table at the end of a sweep: time-to-target by algorithm, over seeds, told as the report tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from flexray.keys import is_under
from flexray.report.grouping import NEUTRAL, identity
from flexray.report.runs import COMPLETED, DIVERGED
from flexray.report.statistics import spread, with_deviation


def sweep_table(summaries: Sequence[dict[str, Any]]) -> Table:
    """Return one row per algorithm and dataset: mean and sample deviation of time-to-target, in units or seconds.

    A target that not every run reached is ``--``, never a mean over those that did; runs that were interrupted or given
    up are not counted, nor is a seed that is run again, which a line below the table says.

    Args:
        summaries: Of the jobs, in order, each with its flat configuration as ``config``.
    """
    groups: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for summary in summaries:
        target, unit = f"{summary['metric']} {summary['target']}", summary["time_unit"]
        key = (summary["algo"], summary["dataset"], target, unit)
        groups.setdefault(key, []).append(summary)
    counted = {key: _counted(runs) for key, runs in groups.items()}
    units = sorted({unit for *_, unit in groups})
    table = Table(title=f"time to target ({' or '.join(units)})", caption=_notes(summaries, list(counted.values())))
    for column in ("algo", "dataset", "target"):
        table.add_column(column)
    for column in ("time to target", "reached", "final"):
        table.add_column(column, justify="right")
    for (algo, dataset, target, unit), runs in counted.items():
        time, reached, final = _outcome(runs)
        table.add_row(
            algo, dataset, target, f"{time} {unit}" if len(units) > 1 and time != "--" else time, reached, final
        )
    return table


def _counted(summaries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those that came to an end; of those that agree in all that matters, seeds included, the last."""
    keys = sorted({key for summary in summaries for key in summary["config"] if not is_under(key, NEUTRAL)})
    ended = (summary for summary in summaries if summary["status"] in (COMPLETED, DIVERGED))
    return list({identity(summary["config"], keys): summary for summary in ended}.values())


def _outcome(runs: Sequence[dict[str, Any]]) -> tuple[str, str, str]:
    """Return time to target, how many reached it, and the metric at the end."""
    times = [run["time_to_target"] for run in runs if run["time_to_target"] is not None]
    finals = [run["final"].get(run["metric"]) for run in runs if run["status"] == COMPLETED]
    finals = [value for value in finals if value is not None]
    everybody = spread(times) if len(times) == len(runs) else None
    final = spread(finals) if len(finals) == len(runs) else None
    return with_deviation(everybody), f"{len(times)} of {len(runs)}", with_deviation(final, 4)


def _notes(summaries: Sequence[dict[str, Any]], groups: Sequence[Sequence[dict[str, Any]]]) -> str | None:
    counts = Counter(s["status"] for s in summaries if s["status"] not in (COMPLETED, DIVERGED))
    if again := len(summaries) - counts.total() - sum(map(len, groups)):
        counts["with the same seed again"] = again
    notes = [f"not counted: {', '.join(f'{count} {status}' for status, count in counts.items())}"] if counts else []
    if any(len({run["seed"] for run in runs}) < len(runs) for runs in groups):
        notes.append("a row has runs of different settings in it: python -m flexray.report tells them apart")
    return "; ".join(notes) or None
