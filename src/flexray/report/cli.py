"""The command line ``python -m flexray.report``; every mistake ends in one line and status 2."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from flexray.core.commands import Parser, guarded
from flexray.report.contents import Wanted
from flexray.report.curves import AXES
from flexray.report.plots import FORMATS
from flexray.report.published import DATASETS
from flexray.report.writing import write_report

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


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    return guarded(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(arguments)
    for line in write_report(options.runs, options.output, _wanted(options)):
        print(line)
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m flexray.report", description=ABOUT, epilog=EXAMPLES, formatter_class=raw)
    add = parser.add_argument
    add("runs", metavar="RUNS", nargs="+", type=Path, help="run folders, or folders with such in them (a multirun)")
    add("-o", "--output", metavar="OUT", type=Path, default=Path("report"), help="folder to write to (default: report)")
    add("--target", metavar="METRIC=VALUE", type=_target, help="another target than the runs' own")
    add("--by", metavar="KEY,...", type=_list, default=[], help="group by these keys (default: by all that differ)")
    add("--over", metavar="KEY,...", type=_list, default=["seed"], help="average over these keys (default: seed)")
    add("--formats", metavar="F,...", type=_formats, default=FORMATS, help="of figures (default: svg,png,pdf)")
    add("--axes", metavar="A,...", type=_axes, default=tuple(AXES), help="of figures (default: time,rounds,bytes)")
    listed = ", ".join(DATASETS)
    add("--paper", metavar="DATASET", choices=DATASETS, help=f"the paper's figures to show beside: {listed}")
    return parser


def _wanted(options: argparse.Namespace) -> Wanted:
    return Wanted(
        options.target, tuple(options.by), tuple(options.over), tuple(options.formats), tuple(options.axes),
        options.paper,
    )  # fmt: skip


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _formats(text: str) -> list[str]:
    return _among(text, FORMATS)


def _axes(text: str) -> list[str]:
    return _among(text, tuple(AXES))


def _among(text: str, known: Sequence[str]) -> list[str]:
    for part in _list(text):
        if part not in known:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got '{part}'")
    return _list(text)


def _target(text: str) -> tuple[str, float]:
    metric, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not metric or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"expected METRIC=VALUE such as test_top1=0.9, got '{text}'")
    return metric, number
