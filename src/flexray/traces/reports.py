"""Tables of the command line: figures of traces side by side, and the repairs of an import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from flexray.traces.cleaning import ALWAYS, KINDS, NO_FAULT, Policy
from flexray.traces.figures import DAY_S, LABELS, QUANTILES, figures
from flexray.traces.files import TraceFile
from flexray.traces.reading import Trace
from flexray.traces.synthesize import Wanted

NOT_KNOWN = "-"


def description(file: TraceFile, trace: Trace) -> dict[str, Any]:
    """Return the JSON of ``describe``."""
    numbers = asdict(figures(trace.cpu_mt, trace.step_s))
    numbers["quantiles"] = {f"{q:g}": value for q, value in zip(QUANTILES, numbers["quantiles"], strict=True)}
    return {
        "machines": len(trace.machines),
        "samples": trace.cpu_mt.shape[1],
        "step_s": trace.step_s,
        "span_days": trace.cpu_mt.shape[1] * trace.step_s / DAY_S,
        "synthetic": trace.synthetic,
        "source": trace.source,
        "cleaning": dict(file.cleaning),
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
        *((label, [number(d[key]) for d in descriptions]) for key, label in LABELS.items()),
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
    """Return a table of an import's faults: their counts, their repairs, the place of the first."""
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
    for key, value in asdict(wanted).items():
        table.add_row(LABELS[key], number(value), number(getattr(got, key)))
    return table


def number(value: float | None) -> str:
    """Return a number with four decimals."""
    return NOT_KNOWN if value is None else f"{value:.4f}"


def _repaired(cleaning: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in cleaning.items() if count) or NOT_KNOWN


def _filling(policy: Policy) -> str:
    return {"hold": "the value before holds", "zero": "filled with 0"}.get(policy.fill, "machine left out")
