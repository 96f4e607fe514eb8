"""The table of a report, and its Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flexray.core.costs import TITLES
from flexray.core.scores import lower_is_better
from flexray.report.grouping import is_setting, texts
from flexray.report.published import SOURCE, Published
from flexray.report.runs import Run
from flexray.report.statistics import MEASURES, Result, Spread, evaluations_apart, reading, with_deviation

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "≥": r"$\ge$", "≤": r"$\le$",
    "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}", "[": "{[}",  # \\[ would begin an argument
}  # fmt: skip
LATIN = 0x17F
"""The last letter that every LaTeX can set."""
MARKDOWN = {c: f"\\{c}" for c in "\\`*_{}[]<>|#~$"}
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Cell:
    """A cell's text, and whether it is the best of its setting."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """The content of the table in all formats.

    Args:
        header: Titles of the columns.
        rows: Cells, row by row.
        starts: The first rows of all settings but the first.
        numeric: The first column with numbers.
        notes: Footnotes.
        legend: The meaning of the figures.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    starts: frozenset[int]
    numeric: int
    notes: tuple[str, ...]
    legend: str


def make_table(results: Sequence[Result], papers: Sequence[Published | None]) -> Table:
    """Return the table: settings first, then methods, then the costs of reaching the target."""
    columns = ordered_columns(results)
    beside = any(papers)
    header = (*columns, *titles_of(results), *(["paper: time"] if beside else []))
    rows: list[tuple[Cell, ...]] = []
    starts: list[int] = []
    notes: list[str] = []
    for place, (result, paper) in enumerate(zip(results, papers, strict=True)):
        mark = f" [{len(notes) + 1}]" if result.notes else ""
        if result.notes:
            notes.append("; ".join(result.notes))
        names = [Cell(result.group.values[c]) for c in columns]
        names[-1] = Cell(names[-1].text + mark)
        figures = figures_of(result, has_target(results), costs_of(results))
        rows.append((*names, *figures, *([Cell(paper_text(paper))] if beside else [])))
        if place and results[place - 1].group.setting != result.group.setting:
            starts.append(place)
    return Table(header, tuple(rows), frozenset(starts), len(columns), tuple(notes), _legend(results, beside))


def has_target(results: Sequence[Result]) -> bool:
    """Whether any run has a target."""
    return any(run.target is not None for r in results for run in r.group.runs)


def costs_of(results: Sequence[Result]) -> list[str]:
    """Return the costs that any run reports."""
    return [name for name in TITLES if any(name in result.costs for result in results)]


def figures_of(result: Result, targets: bool, costs: Sequence[str] = ()) -> list[Cell]:
    """Return the figures of a row: of reaching the target if ``targets``, these ``costs`` of it, and at the end."""
    final = Cell(with_deviation(result.final, 4), "final" in result.best)
    spent = [Cell(with_deviation(result.costs.get(name)), name in result.best) for name in costs]
    if not targets:
        return [Cell(f"{result.runs}"), *spent, final]
    spreads = [Cell(_shown(m, result.spreads[m]), m in result.best) for m in MEASURES]
    return [spreads[0], Cell(f"{len(result.reached)}/{result.runs}"), *spreads[1:], *spent, final]


def ordered_columns(results: Sequence[Result]) -> list[str]:
    """Return the columns that name a group: those of its setting, then those of its method."""
    columns = list(results[0].group.values)
    if len({r.group.values.get("target") for r in results}) < 2:
        columns = [column for column in columns if column != "target"]
    return sorted(columns, key=lambda column: not is_setting(column))


def goal(run: Run) -> str:
    """Return a run's target in words, such as ``test_top1 ≥ 0.96``."""
    if run.target is None:
        return "no target"
    return f"{run.metric} {'≤' if lower_is_better(run.metric) else '≥'} {run.target:g}"


def titles_of(results: Sequence[Result]) -> list[str]:
    """Return the titles of :func:`figures_of`; values that all rows share are in them."""
    runs = [r.group.runs[0] for r in results]
    goals, units, metrics = ({f(run) for run in runs} for f in (goal, lambda r: r.time_unit, lambda r: r.metric))
    to = f"to {goals.pop()}" if len(goals) == 1 else "to target"
    unit = units.pop() if len(units) == 1 else "units or seconds"
    final = f"final {metrics.pop()}" if len(metrics) == 1 else "final metric"
    spent = [TITLES[name] for name in costs_of(results)]
    if not has_target(results):
        return ["runs", *spent, final]
    return [f"time {to} ({unit})", "reached", "rounds", "MB", *spent, final]


def _shown(measure: str, found: Spread | None) -> str:
    if measure == "sent_bytes" and found is not None:
        found = Spread(found.mean / 1e6, None if found.std is None else found.std / 1e6)
    return with_deviation(found)


def paper_text(found: Published | None) -> str:
    """Return the paper's figure and its table."""
    return "" if found is None else f"{with_deviation(found.time)} ({found.table})"


def markdown(table: Table) -> str:
    """Return the table in GitHub's Markdown; the best of a setting is bold."""
    lines = [_pipe(_md(title) for title in table.header)]
    lines.append(_pipe("---:" if k >= table.numeric else ":---" for k in range(len(table.header))))
    lines += [_pipe(f"**{_md(c.text)}**" if c.best else _md(c.text) for c in row) for row in table.rows]
    footer = [f"[{place + 1}] {_md(note)}." for place, note in enumerate(table.notes)]
    return "\n".join(lines) + "\n\n" + "\n".join(f"{line}  " for line in [*footer, _md(table.legend)]) + "\n"


def _pipe(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _md(text: str) -> str:
    return "".join(MARKDOWN.get(c, c) for c in " ".join(text.split()))


def latex(table: Table) -> str:
    r"""Return a ``tabular`` for the package booktabs; the best of a setting is ``\textbf``."""
    kinds = "l" * table.numeric + "r" * (len(table.header) - table.numeric)
    lines = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", _ampersands(table.header), r"\midrule"]
    for place, row in enumerate(table.rows):
        lines += [r"\midrule"] if place in table.starts else []
        lines.append(_ampersands(row))
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"% [{place + 1}] {' '.join(note.split())}" for place, note in enumerate(table.notes)]
    known = all(ord(c) <= LATIN for line in lines for c in line)
    needs = "" if known else "; XeLaTeX or LuaLaTeX and a font for the letters in it"
    return "\n".join([rf"% needs \usepackage{{booktabs}}{needs}", *lines, f"% {table.legend}"]) + "\n"


def _ampersands(cells: Sequence[Cell] | Sequence[str]) -> str:
    texts = []
    for cell in cells:
        text = "".join(LATEX.get(c, c) for c in " ".join((cell.text if isinstance(cell, Cell) else cell).split()))
        texts.append(rf"\textbf{{{text}}}" if isinstance(cell, Cell) and cell.best else text)
    return " & ".join(texts) + r" \\"


def _legend(results: Sequence[Result], beside: bool) -> str:
    parts = ["mean ± sample standard deviation over seeds"]
    if has_target(results):
        parts += ["-- where not every run reached the target", *filter(None, [reading_of(results)])]
    parts += ["best in bold", *([f"paper: {SOURCE}"] if beside else [])]
    return "; ".join(parts)


def reading_of(results: Sequence[Result]) -> str:
    """Return a sentence on the distances of the runs' evaluations; empty if no run has two."""
    runs = [run for r in results for run in r.group.counted]
    gaps = [apart for run in runs if run.evals and (apart := evaluations_apart(run.evals.time_e.tolist())) is not None]
    return reading(gaps, " or ".join(sorted({run.time_unit for run in runs}))) if gaps else ""


def groups_csv(results: Sequence[Result], papers: Sequence[Published | None]) -> str:
    """Return the table with plain numbers, one row per group; empty where there is no mean."""
    columns = ordered_columns(results)
    costs = costs_of(results)
    measures = [f"{m}_{part}" for m in (*(f"{m}_to_target" for m in MEASURES), *costs) for part in ("mean", "std")]
    header = [*columns, "metric", "target", "time_unit", "runs", "reached", *measures, "final_mean", "final_std"]
    rows: list[list[object]] = [[*header, "best", "paper_time_mean", "paper_time_std", "paper_table", "notes"]]
    for result, paper in zip(results, papers, strict=True):
        run = result.group.runs[0]
        spent = [result.costs.get(name) for name in costs]
        spreads = [*(result.spreads[m] for m in MEASURES), *spent, result.final, paper.time if paper else None]
        numbers = [value for s in spreads for value in ((s.mean, s.std) if s else (None, None))]
        names = [result.group.values[c] for c in columns]
        about = [run.metric, run.target, run.time_unit, result.runs, len(result.reached)]
        end = [paper.table if paper else None, "; ".join(result.notes)]
        rows.append([*names, *about, *numbers[:-2], " ".join(sorted(result.best)), *numbers[-2:], *end])
    return _csv(rows)


def runs_csv(runs: Sequence[Run], columns: Sequence[str]) -> str:
    """Return one row per run folder, damaged ones included."""
    header = ["run", "status", *columns, "seed", "data_source", "metric", "target", "time_unit"]
    numbers = ["rounds", "sim_time", "sent_bytes", "final"]
    reached = ["time_to_target", "rounds_to_target", "bytes_to_target"]
    costs = [name for name in TITLES if any(name in run.priced for run in runs)]
    lacks = ["missing"] if any(run.missing for run in runs) else []
    chosen = ["mean_timeout"] if any(run.mean_timeout is not None for run in runs) else []
    further = [*costs, *lacks, *chosen]
    rows: list[list[object]] = [[*header, *numbers, *reached, *further, "wall_s", "versions", "fault"]]
    for run in runs:
        found, series = run.reached(), run.series
        last: list[object] = [None] * 3
        if series is not None and run.length:
            last = [series.number_r[-1], series.time_r[-1], series.sent_bytes_r[-1]]
        about = [run.seed, run.text("data_source"), run.metric, run.target, run.time_unit]
        wall_s = run.summary.get("wall_s")
        spent = run.costs()
        end = [*last, run.final, *(found or [None] * 3), *(spent.get(name) for name in costs)]
        end += [*([run.missing] if lacks else []), *([run.mean_timeout] if chosen else [])]
        end += [wall_s if isinstance(wall_s, float) else None]
        rows.append([run.name, run.status, *texts(run, columns), *about, *end, versions(run), run.fault])
    return _csv(rows)


def versions(run: Run) -> str:
    """Return the versions of packages in a run's summary."""
    found = run.summary.get("versions")
    return " ".join(f"{k}={v}" for k, v in found.items()) if isinstance(found, dict) else ""


def _csv(rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows([_safe(value) for value in row] for row in rows)
    return file.getvalue()


def _safe(value: object) -> object:
    """Return a value that no spreadsheet takes for a formula."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.12g}"
    text = " ".join(str(value).split())
    return f"'{text}" if text.startswith(FORMULA) else text
