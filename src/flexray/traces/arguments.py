"""The options of ``python -m flexray.traces`` and their help texts."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from flexray.core.commands import number, whole
from flexray.traces.formats import formats

ABOUT = """\
Traces say how busy machines are: CPU utilization, a fraction from 0 to 1, in equal steps. flexray reads them to make
parties slow and fast over time (speeds=trace). This command turns public cluster traces and tables of your own into
flexray's trace files, and shows what is in them. Traces that come with flexray go by their bare name: synthetic64."""

EXAMPLES = """\
examples:
  python -m flexray.traces describe synthetic64 google2019_cell
  python -m flexray.traces plot synthetic64 -o cpu.svg
  python -m flexray.traces import google2011 task_usage/part-*.csv.gz \\
         --machine-events machine_events/part-00000-of-00001.csv.gz -o google2011.parquet
  python -m flexray.traces import wide mine.csv --unit percent -o mine.parquet
  python -m flexray.traces synthesize --like mine.parquet --machines 100 -o more.parquet
"""

Raw = argparse.RawDescriptionHelpFormatter
NUMBER, POSITIVE = number(), number("a positive number", above=0)
FRACTION = number("a fraction from 0 to 1", low=0, high=1)
WHOLE, SEED = whole("a whole number of at least 1", low=1), whole("a whole number, 0 or more", low=0)


def build_parser(kind: type[argparse.ArgumentParser] = argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = kind(prog="python -m flexray.traces", description=ABOUT, epilog=EXAMPLES, formatter_class=Raw)
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    _add_import(commands)
    _add_describe(commands)
    _add_plot(commands)
    _add_synthesize(commands)
    return parser


def _add_import(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    listed = "\n".join(f"  {name:12} {form.summary}" for name, form in formats().items())
    parser = commands.add_parser(
        "import", help="turn files of a known format into a trace, and report what had to be repaired",
        description="Turn files of a known format into one trace file.\n\nformats:\n" + listed
        + "\n  your.module  a FORMAT of your own (see flexray.traces.formats.base)",
        formatter_class=Raw,
    )  # fmt: skip
    add = parser.add_argument
    add("format", metavar="FORMAT", help="one of the formats above")
    add("files", metavar="FILES", nargs="+", type=Path, help="files, or folders of them, gzipped or not; all are added")
    add("-o", "--output", metavar="OUT.parquet", type=Path, required=True, help="the trace to write")
    add("--machine-events", metavar="FILE", type=Path, help="google2011, google2019: the machines' capacities")
    add("--unit", choices=("fraction", "percent"),
        help="what values are in; never guessed (default: fraction, or as the format is defined)")  # fmt: skip
    add("--step", metavar="SECONDS", type=WHOLE, help="length of a window (default: 300; wide, long: as in the file)")
    _add_repairs(parser.add_argument_group("repairs (all are counted, printed and kept in the trace file)"))
    add = parser.add_argument_group("more").add_argument
    add("--max-machines", metavar="N", type=WHOLE, default=15_000,
        help="leave out machines beyond the first N that appear, which bounds memory (default: 15000)")  # fmt: skip
    add("--keep-in-alloc", action="store_true",
        help="google2019: also count tasks inside allocs, although the alloc's own row has their usage")  # fmt: skip
    add("--source", metavar="TEXT", default="", help="where the data comes from (default: format and file names)")
    add("--workers", metavar="N", type=WHOLE, default=os.cpu_count() or 1,
        help="files read at once (default: as many as there are cores)")  # fmt: skip


def _add_repairs(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--fill", choices=("hold", "zero", "drop"), default="hold",
        help="a window without a usable value: hold the value before (default), 0, or drop the machine")  # fmt: skip
    add("--above-one", choices=("clip", "fill", "refuse"),
        help="values above 1: cut to 1, fill like missing ones, or refuse"
        " (default: clip where the format fixes the unit, else refuse)")  # fmt: skip
    add("--idle", choices=("zero", "gap"), default="zero",
        help="Google formats: windows in which no task ran on a machine that was there (default: zero)")  # fmt: skip
    add("--min-coverage", metavar="FRACTION", type=FRACTION, default=0.0,
        help="leave out machines with usable values in less than this part of the windows (default: 0)")  # fmt: skip
    add("--min-machines", metavar="N", type=WHOLE, default=1,
        help="fail if fewer machines are left, say parties plus one for the server (default: 1)")  # fmt: skip
    add("--strict", action="store_true", help="repair nothing: fail at any fault, naming the first")


def _add_describe(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "describe", help="print machines, span, mean, quantiles, autocorrelation; several traces side by side"
    )
    add = parser.add_argument
    add("traces", metavar="TRACE", nargs="+", help="a trace file, or the bare name of one that comes with flexray")
    add("--machines", metavar="A,B,...", type=_names, help="only these machines")
    add("--each", action="store_true", help="one row per machine, too")
    add("--json", action="store_true", help="print JSON instead of a table")


def _add_plot(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("plot", help="draw utilization over time of some machines")
    add = parser.add_argument
    add("trace", metavar="TRACE", help="a trace file, or the bare name of one that comes with flexray")
    add("-o", "--output", metavar="FILE", type=Path, required=True, help="a .png or .svg file")
    add("--machines", metavar="A,B,...", type=_names, help="which machines (default: draw some)")
    add("--draw", metavar="N", type=WHOLE, default=4, help="how many machines to draw by lot (default: 4)")
    add("--seed", metavar="N", type=SEED, default=0, help="of the lot (default: 0)")
    add("--days", metavar="D", type=POSITIVE, help="only the first D days")


def _add_synthesize(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "synthesize", help="generate a trace with the figures of another, or with given ones",
        description="Generate a trace, labelled synthetic, whose five figures are those of TRACE, or given ones.",
    )  # fmt: skip
    add = parser.add_argument
    add("--like", metavar="TRACE", help="the trace whose figures are met; figures given below take precedence")
    add("-o", "--output", metavar="OUT.parquet", type=Path, required=True, help="the trace to write")
    add("--machines", metavar="N", type=WHOLE, default=64, help="how many machines (default: 64)")
    add("--days", metavar="D", type=POSITIVE, default=7.0, help="how long, at least 2 days (default: 7)")
    add("--step", metavar="SECONDS", type=WHOLE, default=300, help="length of a sample (default: 300)")
    add("--seed", metavar="N", type=SEED, default=0, help="the same seed gives the same trace (default: 0)")
    add("--mean", metavar="X", type=NUMBER, help="mean utilization")
    add("--between", metavar="X", type=NUMBER, help="standard deviation of the machines' means")
    add("--within", metavar="X", type=NUMBER, help="mean of the machines' standard deviations")
    add("--lag1", metavar="X", type=NUMBER, help="autocorrelation from one sample to the next")
    add("--daily", metavar="X", type=NUMBER, help="autocorrelation over a day")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
