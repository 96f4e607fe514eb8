"""The command line ``python -m flexray.traces``; mistakes end in one line and status 2."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np
from rich.console import Console

from flexray.core.commands import Parser, command
from flexray.core.errors import ConfigError, near_match
from flexray.core.seeds import generator
from flexray.traces import reports
from flexray.traces.arguments import build_parser
from flexray.traces.cleaning import Policy
from flexray.traces.figures import DAY_S
from flexray.traces.files import check_output
from flexray.traces.formats.base import Request
from flexray.traces.reading import read_trace, trace_info


@command()
def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    options = build_parser(_Parser).parse_args(arguments)
    RUN[options.command](options, Console())
    return 0


class _Parser(Parser):
    """Names the nearest command to an unknown one."""

    def error(self, message: str) -> NoReturn:
        if "invalid choice" in message and "command" in message:
            word = message.split("'")[1]
            raise ConfigError(f"unknown command '{word}'{near_match(word, RUN)}")
        super().error(message)


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _import(options: argparse.Namespace, console: Console) -> None:
    from flexray.traces.formats import find_format
    from flexray.traces.importing import expand, import_trace

    find_format(options.format)
    policy = Policy(options.fill, options.above_one or "", options.min_coverage, options.min_machines)
    files = expand(options.files)
    with _progress(sum(path.stat().st_size for path in files)) as progress:
        request = Request(
            files, options.machine_events, options.step, options.unit, policy, options.idle,
            options.keep_in_alloc, options.max_machines, options.workers, progress,
        )  # fmt: skip
        result = import_trace(options.format, request, options.output, options.source, options.strict)
    console.print(reports.cleaning_table(result.counts.number, result.counts.first, result.policy))
    if options.format == "google2019" and options.machine_events is None:
        _say(console, "No --machine-events: every machine counts as capacity 1, the largest of the cell.")
    days = result.length * result.step_s / DAY_S
    span = f"{result.machines:,} machines x {result.length:,} samples of {result.step_s:g} s ({days:.2f} days)"
    _say(console, f"{options.output}: {span}")


@contextmanager
def _progress(total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, nothing elsewhere."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress("reading", *columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=total_bytes)
        yield lambda count: bar.advance(task, count)


def _describe(options: argparse.Namespace, console: Console) -> None:
    found = []
    for path in options.traces:
        trace = read_trace(path, options.machines)
        found.append(reports.description(trace_info(path), trace))
        if options.each:
            _say(console, f"{path}:")
            console.print(reports.machine_table(trace))
    if options.json:
        print(json.dumps(dict(zip(options.traces, found, strict=True)), indent=1))
    else:
        console.print(reports.describe_table([Path(path).name for path in options.traces], found))


def _plot(options: argparse.Namespace, console: Console) -> None:
    from flexray.traces.plot import SUFFIXES, plot_trace

    check_output(options.output, SUFFIXES)
    names = options.machines
    if not names:
        known = trace_info(options.trace).machines
        drawn = generator(options.seed, "plot").choice(len(known), min(options.draw, len(known)), replace=False)
        names = [known[m] for m in np.sort(drawn)]
    plot_trace(read_trace(options.trace, names), options.output, options.days)
    _say(console, f"{options.output}: {', '.join(names)}")


def _synthesize(options: argparse.Namespace, console: Console) -> None:
    from flexray.traces import synthesize as synthesis
    from flexray.traces.parquet import TraceWriter

    given = {name: getattr(options, name) for name in ("mean", "between", "within", "lag1", "daily")}
    if options.like is not None:
        model = read_trace(options.like)
        wanted = synthesis.measure(model.cpu_mt, model.step_s)
        given = {key: value if value is not None else getattr(wanted, key) for key, value in given.items()}
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if missing:
        raise ConfigError(f"synthesize: expected --like TRACE, or all five figures; {', '.join(missing)} not given")
    wanted = synthesis.Wanted(**given)
    name = "wanted" if options.like is None else Path(options.like).name
    writer = TraceWriter(options.output, options.step)
    length = round(options.days * DAY_S / options.step)
    cpu_mt = synthesis.synthesize(wanted, options.machines, length, options.step, options.seed)
    got = synthesis.measure(cpu_mt, options.step)
    digits = len(str(options.machines - 1))
    rows = ((f"synthetic_{m:0{digits}d}", cpu_t) for m, cpu_t in enumerate(cpu_mt))
    figures_text = " ".join(f"{key}={value:.4g}" for key, value in given.items())
    writer.write(rows, f"synthetic, seed {options.seed}: {figures_text}", True, {})
    console.print(reports.wanted_table(wanted, got, name))
    text = f"{options.output}: {options.machines} machines x {length:,} samples of {options.step} s, synthetic"
    _say(console, text)


RUN: dict[str, Callable[[argparse.Namespace, Console], None]] = {
    "import": _import, "describe": _describe, "plot": _plot, "synthesize": _synthesize,
}  # fmt: skip
