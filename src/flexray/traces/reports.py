"""What the command line prints: figures of traces side by side, and the account of an import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from flexray.traces.cleaning import ALWAYS, KINDS, NO_FAULT, Policy
from flexray.traces.figures import DAY_S, QUANTILES, Figures, figures
from flexray.traces.reading import Trace, TraceInfo
from flexray.traces.synthesize import Wanted

NOT_KNOWN = "-"


def description(info: TraceInfo, trace: Trace, found: Figures) -> dict[str, Any]:
    """Return what ``describe --json`` prints."""
    numbers = asdict(found)
    numbers["quantiles"] = {f"{q:g}": value for q, value in zip(QUANTILES, found.quantiles, strict=True)}
    return {
        "machines": len(trace.machines),
        "samples": trace.cpu_mt.shape[1],
        "step_s": trace.step_s,
        "span_days": trace.cpu_mt.shape[1] * trace.step_s / DAY_S,
        "synthetic": trace.synthetic,
        "source": trace.source,
        "cleaning": dict(info.cleaning),
        **numbers,
    }


def describe_table(names: Sequence[str], descriptions: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with one column per trace."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    for name in names:
        table.add_column(escape(name), justify="right", overflow="fold")
    rows = [
        ("machines", [f"{d['machines']:,}" for d in descriptions]),
        ("samples per machine", [f"{d['samples']:,}" for d in descriptions]),
        ("step (s)", [f"{d['step_s']:g}" for d in descriptions]),
        ("span (days)", [f"{d['span_days']:.2f}" for d in descriptions]),
        ("synthetic", ["yes" if d["synthetic"] else "no" for d in descriptions]),
        ("mean utilization", [number(d["mean"]) for d in descriptions]),
        ("spread between machines (sd of means)", [number(d["between"]) for d in descriptions]),
        ("spread within a machine (mean sd)", [number(d["within"]) for d in descriptions]),
        ("autocorrelation, one step", [number(d["lag1"]) for d in descriptions]),
        ("autocorrelation, one hour", [number(d["hourly"]) for d in descriptions]),
        ("autocorrelation, one day", [number(d["daily"]) for d in descriptions]),
        ("lowest", [number(d["minimum"]) for d in descriptions]),
        *((f"{q:.0%} quantile", [number(d["quantiles"][f"{q:g}"]) for d in descriptions]) for q in QUANTILES),
        ("highest", [number(d["maximum"]) for d in descriptions]),
        ("source", [escape(d["source"]) for d in descriptions]),
        ("repaired on import", [_repaired(d["cleaning"]) for d in descriptions]),
    ]
    for label, cells in rows:
        table.add_row(label, *cells)
    return table


def machine_table(trace: Trace) -> Table:
    """Return a table with one row per machine."""
    table = Table("machine", box=box.SIMPLE_HEAD)
    for label in ("mean", "sd", "lowest", "median", "highest", "lag-1", "daily"):
        table.add_column(label, justify="right")
    for name, cpu_t in zip(trace.machines, trace.cpu_mt, strict=True):
        own = figures(cpu_t[None, :], trace.step_s)
        values = (own.mean, own.within, own.minimum, own.quantiles[2], own.maximum, own.lag1, own.daily)
        table.add_row(escape(name), *map(number, values))
    return table


def cleaning_table(counts: Mapping[str, int], first: Mapping[str, str], policy: Policy) -> Table:
    """Return the account of an import: what was found, how often, what was done, and where it was first."""
    done = {
        "nan": _filling(policy),
        "negative": _filling(policy),
        "gaps": _filling(policy),
        "above_one": {"clip": "cut to 1", "fill": _filling(policy)}.get(policy.above_one, "refused"),
        "unsorted": "put in order",
        "overlapping": "counted once",
        "start_shift_s": "time moved to 0",
        "reversed": "left out",
        "idle": "0, or a gap with --idle gap",
    }
    table = Table("fault", "what it is", box=box.SIMPLE_HEAD)
    table.add_column("count", justify="right")
    table.add_column("what was done")
    table.add_column("first at", overflow="fold")
    for kind, what in KINDS.items():
        if kind in ALWAYS or counts.get(kind):
            count = counts.get(kind, 0)
            row = (f"{count:,}", done.get(kind, "left out") if count else "", escape(first.get(kind, "")))
            table.add_row(kind + (" (no fault)" if kind in NO_FAULT else ""), what, *row)
    return table


def wanted_table(wanted: Wanted, got: Wanted, name: str) -> Table:
    """Return wanted and generated figures side by side."""
    table = Table("", box=box.SIMPLE_HEAD)
    table.add_column(escape(name), justify="right")
    table.add_column("synthetic", justify="right")
    labels = {
        "mean": "mean utilization",
        "between": "spread between machines (sd of means)",
        "within": "spread within a machine (mean sd)",
        "lag1": "autocorrelation, one step",
        "daily": "autocorrelation, one day",
    }
    for key, label in labels.items():
        table.add_row(label, number(getattr(wanted, key)), number(getattr(got, key)))
    return table


def number(value: float | None) -> str:
    """Return a number with four decimals."""
    return NOT_KNOWN if value is None else f"{value:.4f}"


def _repaired(cleaning: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in cleaning.items() if count) or NOT_KNOWN


def _filling(policy: Policy) -> str:
    return {"hold": "the value before holds", "zero": "filled with 0"}.get(policy.fill, "machine left out")
