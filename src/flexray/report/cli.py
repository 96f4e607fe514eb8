"""The command line ``python -m flexray.report``; mistakes end in one line and status 2."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from flexray.core.commands import Parser, command
from flexray.core.files import failing
from flexray.report import tables
from flexray.report.contents import Wanted, make_report
from flexray.report.page import make_page
from flexray.report.plots import FORMATS, draw_all
from flexray.report.published import DATASETS
from flexray.report.runs import AXES

ABOUT = """\
Makes tables, figures and a page of run folders. Runs that differ in their seeds only are averaged; what was not reached
is --, and runs that are damaged, interrupted or still running are named, never counted. The folders may come from
anybody: they are read as text, and nothing in them is executed."""

EXAMPLES = """\
examples:
  python -m flexray.report multirun/2026-01-31
  python -m flexray.report run_a run_b -o compared --target test_top1=0.9
  python -m flexray.report multirun --by network.t_comm --formats pdf

OUT then holds report.html (open it in a browser; it needs no network), table.md, table.tex, table.csv, runs.csv and the
figures {target,train_loss}_by_{time,rounds,bytes}."""


@command()
def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    options = build_parser().parse_args(arguments)
    wanted = Wanted(options.target, options.by, options.over, options.formats, options.axes, options.paper)
    for line in write_report(options.runs, options.output, wanted):
        print(line)
    return 0


def write_report(paths: Sequence[Path], folder: Path, wanted: Wanted) -> Iterator[str]:
    """Write a report into a folder and yield the lines to print.

    Raises:
        DataError: There is nothing to report, or a file cannot be written.
    """
    report = make_report(paths, wanted)
    table = tables.make_table(report.results, report.papers)
    texts = {
        "table.md": tables.markdown(table),
        "table.tex": tables.latex(table),
        "table.csv": tables.groups_csv(report.results, report.papers),
        "runs.csv": tables.runs_csv(report.runs, tables.ordered_columns(report.results)),
        "report.html": make_page(report, table),
    }
    with failing(f"--output: {folder}: cannot be made"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with failing(f"--output: {folder / name}: cannot be written"):
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    for _ in draw_all(report.results, folder, wanted.axes, wanted.formats):
        pass
    yield texts["table.md"]
    yield from report.warnings
    yield f"{folder / 'report.html'}: {len(report.runs)} runs in {len(report.groups)} groups"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m flexray.report", description=ABOUT, epilog=EXAMPLES, formatter_class=raw)
    add, formats, axes = parser.add_argument, partial(_list, known=FORMATS), partial(_list, known=tuple(AXES))
    add("runs", metavar="RUNS", nargs="+", type=Path, help="run folders, or folders with such in them (a multirun)")
    add("-o", "--output", metavar="OUT", type=Path, default=Path("report"), help="folder to write to (default: report)")
    add("--target", metavar="METRIC=VALUE", type=_target, help="another target than the runs' own")
    add("--by", metavar="KEY,...", type=_list, default=(), help="group by these keys (default: by all that differ)")
    add("--over", metavar="KEY,...", type=_list, default=("seed",), help="average over these keys (default: seed)")
    add("--formats", metavar="F,...", type=formats, default=FORMATS, help="of figures (default: svg,png,pdf)")
    add("--axes", metavar="A,...", type=axes, default=tuple(AXES), help="of figures (default: time,rounds,bytes)")
    listed = ", ".join(DATASETS)
    add("--paper", metavar="DATASET", choices=DATASETS, help=f"the paper's figures to show beside: {listed}")
    return parser


def _list(text: str, known: Sequence[str] = ()) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    for part in parts:
        if known and part not in known:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got '{part}'")
    return parts


def _target(text: str) -> tuple[str, float]:
    metric, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not metric or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"expected METRIC=VALUE such as test_top1=0.9, got '{text}'")
    return metric, number
