"""The page: one HTML file that needs no network.

It holds Plotly's script and the data, compressed; its content security policy forbids it to load anything.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from flexray.report.contents import Report
from flexray.report.grouping import NAMES, texts
from flexray.report.payload import payload
from flexray.report.runs import DAMAGED
from flexray.report.schedule import read_schedule
from flexray.report.slowest import select
from flexray.report.tables import Cell, Table, has_target, ordered_columns, reading_of

SCRIPTS = ("unpack.js", "numbers.js", "table.js", "figures.js", "curves.js", "schedule.js", "page.js")
MAX_DATA = 2_700_000
"""Limit for bytes of packed data, so that the page stays under 5 MB; schedules are cut until they fit."""
MAX_ROUNDS = 1000


def make_page(report: Report, table: Table) -> str:
    """Return the page."""
    return Template(_asset("page.html")).substitute(
        style=_asset("page.css"),
        script="\n".join(_asset(name) for name in SCRIPTS),
        summary=_summary(report),
        warnings=_warnings(report.warnings),
        title="What it took to reach the target" if has_target(report.results) else "What came out",
        hint=_hint(report),
        table=_table(table),
        runs=_runs(report),
        data=_data(report),
        plotly=_plotly(),
    )


def _asset(name: str) -> str:
    return (resources.files("flexray.report") / "assets" / name).read_text(encoding="utf-8")


@functools.cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return _packed(get_plotlyjs().encode())


def _packed(content: bytes, level: int = 9) -> str:
    return base64.b64encode(gzip.compress(content, level, mtime=0)).decode()


def _data(report: Report) -> str:
    chosen = {id(run): select(run, read_schedule(run)) for run in report.runs if run.status != DAMAGED}
    rounds = MAX_ROUNDS
    while True:
        content = payload(report, chosen, rounds)
        packed = _packed(json.dumps(content, separators=(",", ":"), allow_nan=False).encode(), 6)
        if len(packed) <= MAX_DATA or not rounds:
            return packed
        rounds = int(0.9 * rounds * MAX_DATA / len(packed))


def _summary(report: Report) -> str:
    grouped = [run for group in report.groups for run in group.runs]
    facts = [_many(len(report.runs), "run"), _many(len(report.groups), "group")]
    facts.append(_many(len({run.text("algo") for run in grouped}), "algorithm"))
    facts.append(_many(len({run.seed for run in grouped}), "seed"))
    facts += sorted({run.text("dataset") for run in grouped})[:6]
    return "".join(f"<li>{_text(fact)}</li>" for fact in facts)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _warnings(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f'<section class="warnings" aria-label="What to know first"><ul>{items}</ul></section>'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col"{_numeric(k, table)}>{_text(t)}</th>' for k, t in enumerate(table.header))
    rows = []
    for place, row in enumerate(table.rows):
        cells = "".join(
            f'<td{_numeric(k, table)} data-label="{_text(table.header[k])}">{_strong(cell)}</td>'
            for k, cell in enumerate(row)
        )
        kind = ' class="start"' if place in table.starts else ""
        rows.append(f"<tr{kind}>{cells}</tr>")
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    body = "".join(rows)
    return (
        f'<table id="results"><caption class="hidden">Time, rounds and bytes to target</caption>'
        f'<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><ol class="notes" id="notes">{notes}</ol>'
    )


def _hint(report: Report) -> str:
    words = ["Mean ± sample standard deviation over seeds", "<b>bold</b>: best of its setting"]
    if has_target(report.results):
        words += ["--: not every run reached the target, so there is no mean", _text(reading_of(report.results))]
    return "; ".join(filter(None, words))


def _strong(cell: Cell) -> str:
    return f"<strong>{_text(cell.text)}</strong>" if cell.best else _text(cell.text)


def _numeric(place: int, table: Table) -> str:
    return ' class="number"' if place >= table.numeric else ""


def _runs(report: Report) -> str:
    columns = [c for c in ordered_columns(report.results) if c not in (*NAMES, "seed")]
    lacks = ["training samples missing"] if any(run.missing for run in report.runs) else []
    titles = ("run", "state", "algorithm", "dataset", *columns, "seed", "rounds", "data", *lacks, "wall s")
    head = "".join(f'<th scope="col">{_text(title)}</th>' for title in titles)
    rows = []
    for run in report.runs:
        wall_s = run.summary.get("wall_s")
        wall = f"{wall_s:.1f}" if isinstance(wall_s, float) else ""
        state = f"{run.status}: {run.fault}" if run.fault else run.status
        source = f"{run.text('data_source')}{', SYNTHETIC' if run.synthetic else ''}"
        names = (run.name, state, run.text("algo"), run.text("dataset"), *texts(run, columns), run.seed)
        values = (*names, f"{run.length:,}", source, *([run.missing] if lacks else []), wall)
        cells = "".join(f'<td data-label="{_text(t)}">{_text(v)}</td>' for t, v in zip(titles, values, strict=True))
        rows.append(f'<tr class="{run.status}">{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)
