"""Writes a report: the page, the tables, the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from flexray.core.errors import DataError
from flexray.report import tables
from flexray.report.contents import Wanted, make_report
from flexray.report.grouping import all_values, shown


def write_report(paths: Sequence[Path], folder: Path, wanted: Wanted) -> Iterator[str]:
    """Write a report into a folder and yield what to print.

    Raises:
        DataError: There is nothing to report, or a file cannot be written.
    """
    from flexray.report.page import make_page
    from flexray.report.plots import draw_all

    report = make_report(paths, wanted)
    table = tables.make_table(report.results, report.papers)
    columns = tables.ordered_columns(report.results)
    values = [{key: shown(value) for key, value in all_values(run).items()} for run in report.runs]
    texts = {
        "table.md": tables.markdown(table),
        "table.tex": tables.latex(table),
        "table.csv": tables.groups_csv(report.results, report.papers),
        "runs.csv": tables.runs_csv(report.runs, columns, values),
    }
    texts["report.html"] = make_page(report, table)
    _make(folder)
    for name, text in texts.items():
        _write(folder / name, text)
    for _ in draw_all(report.results, folder, wanted.axes, wanted.formats):
        pass
    yield texts["table.md"]
    yield from report.warnings
    yield f"{folder / 'report.html'}: {len(report.runs)} runs in {len(report.groups)} groups"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"--output: {folder}: cannot be made: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise DataError(f"--output: {path}: cannot be written: {error.strerror}") from error
