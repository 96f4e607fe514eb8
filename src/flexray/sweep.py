"""The table at the end of a sweep: time-to-target by algorithm, over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from rich.table import Table


def sweep_table(summaries: Sequence[dict[str, Any]]) -> Table:
    """Return one row per algorithm and dataset: mean and deviation of time-to-target over the runs that reached it.

    A row in which a run missed the target says how many reached it; with none, ``--``. Times are units or seconds.
    """
    groups: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for summary in summaries:
        target, unit = f"{summary['metric']} {summary['target']}", summary["time_unit"]
        key = (summary["algo"], summary["dataset"], target, unit)
        groups.setdefault(key, []).append(summary)
    units = sorted({unit for *_, unit in groups})
    table = Table(title=f"time to target ({' or '.join(units)})")
    for column in ("algo", "dataset", "target"):
        table.add_column(column)
    for column in ("time to target", "reached", "final"):
        table.add_column(column, justify="right")
    for (algo, dataset, target, unit), runs in groups.items():
        times = [run["time_to_target"] for run in runs if run["time_to_target"] is not None]
        finals = [run["final"].get(run["metric"]) for run in runs]
        known = [value for value in finals if value is not None]
        final = f"{statistics.mean(known):.4f}" if known else "--"
        table.add_row(
            algo,
            dataset,
            target,
            _spread(times, unit if len(units) > 1 else ""),
            f"{len(times)} of {len(runs)}",
            final,
        )
    return table


def _spread(values: Sequence[float], unit: str) -> str:
    if not values:
        return "--"
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):,.6g} ± {deviation:,.4g} {unit}".rstrip()
