"""The contents of a report: runs, groups, results, warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flexray.core.errors import DataError
from flexray.report.folders import find_runs, read_runs
from flexray.report.grouping import Group, make_groups
from flexray.report.published import Published, published
from flexray.report.runs import DAMAGED, STOPPED, UNFINISHED, Run
from flexray.report.statistics import Result, results


@dataclass(frozen=True)
class Wanted:
    """The options of the command line.

    Args:
        target: Metric and value of another target than the runs' own.
        by: Keys to group by; none: all that differ.
        over: Keys to average over.
        formats: Of figures.
        axes: Of figures.
        paper: The paper's dataset to compare with.
    """

    target: tuple[str, float] | None = None
    by: tuple[str, ...] = ()
    over: tuple[str, ...] = ("seed",)
    formats: tuple[str, ...] = ("svg", "png", "pdf")
    axes: tuple[str, ...] = ("time", "rounds", "bytes")
    paper: str | None = None


@dataclass(frozen=True)
class Report:
    """The contents of a report.

    Args:
        runs: Every run folder, in any state.
        groups: The readable ones, grouped.
        results: The result of each group.
        papers: The paper's figure for each group.
        warnings: Remarks on the report as a whole.
    """

    runs: tuple[Run, ...]
    groups: tuple[Group, ...]
    results: tuple[Result, ...]
    papers: tuple[Published | None, ...]
    warnings: tuple[str, ...]


def make_report(paths: Sequence[Path], wanted: Wanted) -> Report:
    """Read run folders and return the report.

    Raises:
        DataError: There are no runs, or none is readable.
    """
    runs = read_runs(find_runs(paths))
    readable = [run for run in runs if run.status != DAMAGED]
    if not readable:
        raise DataError(f"{runs[0].folder}: {runs[0].fault}; none of {len(runs)} run folders can be read")
    if wanted.target:
        readable = [run.with_target(*wanted.target) for run in readable]
    again = {run.folder: run for run in readable}
    groups = make_groups(readable, wanted.by, wanted.over)
    found = results(groups)
    papers = tuple(published(group.runs[0], wanted.paper) for group in groups)
    return Report(
        tuple(again.get(run.folder, run) for run in runs), tuple(groups), tuple(found), papers, tuple(_warnings(runs))
    )


def _warnings(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the remarks that stand before all figures."""
    if any(run.synthetic for run in runs):
        count = sum(run.synthetic for run in runs)
        yield f"SYNTHETIC data or traces in {count} of {len(runs)} runs: they say nothing about real data"
    for run in runs:
        if run.status == DAMAGED:
            yield f"run {run.name}: damaged, not counted: {run.fault}"
        elif run.status == UNFINISHED:
            yield f"run {run.name}: still running, killed or crashed: {run.length:,} rounds so far; not counted"
        elif run.status in STOPPED:
            passed = run.time_unit == "seconds" and not run.summary.get("predicted")  # they do not come again
            more = "" if passed else "; it can be resumed"
            yield f"run {run.name}: {STOPPED[run.status]} after {run.length:,} rounds{more}; not counted"
    yield from _mixed_versions(runs)


def _mixed_versions(runs: Sequence[Run]) -> Iterator[str]:
    packages: dict[str, dict[str, int]] = {}
    for run in runs:
        noted = run.summary.get("versions")
        for package, version in noted.items() if isinstance(noted, dict) else ():
            counts = packages.setdefault(str(package), {})
            counts[str(version)] = counts.get(str(version), 0) + 1
    for package, counts in packages.items():
        if len(counts) > 1:
            listed = ", ".join(f"{version} ({count})" for version, count in sorted(counts.items()))
            yield f"mixed versions of {package}, and in how many runs: {listed}"
