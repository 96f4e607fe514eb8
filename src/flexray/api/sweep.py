"""Several runs as Python has them, and :func:`sweep`, which runs them."""

from __future__ import annotations

import html
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flexray.api.figures import Axis, figure
from flexray.api.grid import Grid, entries, swept_by
from flexray.api.launch import Among
from flexray.api.process import TemporaryFolder
from flexray.api.run import Run
from flexray.api.sweeping import Planned, plan, run_here, run_side_by_side
from flexray.cluster.warm import CURRENT
from flexray.config.remembered import Merged
from flexray.core.checks import whole
from flexray.core.errors import ConfigError, DataError, ResourceError
from flexray.core.runfolder import LOG_FILE, read_text
from flexray.engine.hosts.resources import LOCAL
from flexray.report.grouping import all_values, make_groups
from flexray.report.runs import DAMAGED, DIVERGED, UNFINISHED
from flexray.report.runs import Run as Reported
from flexray.report.statistics import results
from flexray.report.tables import costs_of, figures_of, has_target, ordered_columns, titles_of
from flexray.run.places import open_pool

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from flexray.engine.hosts.jobs import Pool
    from flexray.run.watch.sweep import SweepProgress

FAILURE = re.compile(r"\[ERROR\] flexray: (?:job \d+ \(.*?\): )?(.*)")
"""How ``run.log`` says why a run failed."""

log = logging.getLogger("flexray")


class Sweep(Sequence[Run]):
    """Runs in the folders of a folder, as a sweep leaves them: a sequence of :class:`Run`.

    Args:
        folder: The sweep's folder.
        members: Its runs.
        home: A temporary folder that lives as long as this sweep.

    Example:
        >>> import flexray
        >>> sweep = flexray.sweep({"algo": ["flex", "pbcd"]}, seeds=2, rounds=4, progress=False)
        >>> sweep
        <Sweep of 4 runs: 4 completed>
        >>> sweep.runs["test_top1"].round(4).tolist()
        [0.3008, 0.117, 0.1086, 0.0557]
        >>> sweep.table(target=0.2)[["algo", "reached", "final test_top1"]]
           algo reached  final test_top1
        0  flex     1/2  0.2089 ± 0.1300
        1  pbcd     0/2  0.0822 ± 0.0374
    """

    def __init__(self, folder: Path, members: Sequence[Run], home: Any = None) -> None:
        self.folder = folder
        self._members = list(members)
        self._home = home

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, place: Any) -> Any:
        """Return a run, or several as a list."""
        return self._members[place]

    def __iter__(self) -> Iterator[Run]:
        return iter(self._members)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row per run, by the name of its folder.

        Columns: the keys that vary, ``seed``, ``status``, the metrics of the last evaluation,
        ``time_to_target_units`` (or ``_seconds``; NaN where there is none) and ``error``: why it failed. A run that
        failed has the status ``error``.
        """
        import pandas as pd

        varied = self._varied()
        rows = [self._row(read, varied) for read in self._read]
        return pd.DataFrame(rows, index=pd.Index([run.folder.name for run in self], name="run"))

    def table(
        self,
        target: float | None = None,
        metric: str | None = None,
        by: Sequence[str] = (),
        over: Sequence[str] = ("seed",),
    ) -> pd.DataFrame:
        """Return the report's table: mean and sample deviation of what it takes to reach a target.

        Args:
            target: Another target than the runs' own.
            metric: Its metric; by default that of the runs' own target.
            by: Keys to group by; none: all that differ.
            over: Keys to average over.

        Returns:
            A row per group, as the report prints it, ``--`` where not every run reached the target; runs that do not
            count are named in the column ``notes``, if there are any.

        Raises:
            UserError: A run has no such metric or key, or none can be read.
        """
        import pandas as pd

        read = self._readable
        if metric is not None and target is None:
            raise ConfigError(f"target: expected the value of {metric} that is to be reached")
        if target is not None:
            read = [run.with_target(metric or run.metric, target) for run in read]
        found = results(make_groups(read, by, over))
        columns, targets = ordered_columns(found), has_target(found)
        names = [[result.group.values[column] for column in columns] for result in found]
        cells = [[cell.text for cell in figures_of(result, targets, costs_of(found))] for result in found]
        rows = [own + shown for own, shown in zip(names, cells, strict=True)]
        table = pd.DataFrame(rows, columns=[*columns, *titles_of(found)])
        notes = ["; ".join(result.notes) for result in found]
        return table.assign(notes=notes) if any(notes) else table

    def plot(self, metric: str | None = None, by: Axis = "time") -> Figure:
        """Return the report's figure: mean and deviation of a metric, a line for each group.

        Args:
            metric: A column of :attr:`Run.evals`; by default the one of the runs' own target, which is shown, too.
            by: The axis: simulated ``time``, ``rounds``, or ``bytes`` that were sent.

        Raises:
            UserError: The runs have no such metric or axis, or no evaluation yet.
        """
        return figure(self._readable, metric, by, self.folder)

    @property
    def _read(self) -> list[Reported]:
        return [run._read for run in self]

    @property
    def _readable(self) -> list[Reported]:
        if readable := [run for run in self._read if run.status != DAMAGED]:
            return readable
        raise DataError(f"{self.folder}: none of {len(self)} run folders can be read")

    def _varied(self) -> list[str]:
        readable = [run for run in self._read if run.status != DAMAGED]
        groups = make_groups(readable) if readable else []
        names = list(groups[0].values) if groups else []
        return [name for name in names if len({group.values[name] for group in groups}) > 1]

    def _row(self, read: Reported, varied: Sequence[str]) -> dict[str, Any]:
        values, error = all_values(read), _error(read)
        evals = read.evals if read.status != DIVERGED else None
        metrics = {**evals.metrics, **evals.costs} if evals is not None else {}
        last = {name: float(found[-1]) for name, found in metrics.items() if len(found)}
        reached, seed = read.reached(), read.summary.get("seed")
        unit = read.time_unit if read.time_unit in ("units", "seconds") else "units"
        status = "error" if error and read.status == UNFINISHED else read.status
        return {
            **{name: values.get(name) for name in varied}, "seed": seed, "status": status, **last,
            f"time_to_target_{unit}": reached.time if reached else None, "error": error,
        }  # fmt: skip

    def __repr__(self) -> str:
        states = self.runs["status"].value_counts()
        return f"<Sweep of {len(self)} runs: {', '.join(f'{count} {status}' for status, count in states.items())}>"

    def _repr_html_(self) -> str:
        table = self.table().to_html(index=False)
        failed = self.runs[self.runs["error"].notna()]
        lines = "".join(f"<br>run {name}: {html.escape(error)}" for name, error in failed["error"].items())
        return f"{table}{html.escape(repr(self))}{lines}"


def sweep(
    grid: Grid,
    *,
    seeds: int | Iterable[int] = 5,
    parallel: int | Literal["ray"] = 1,
    folder: str | os.PathLike[str] | None = None,
    **keys: Any,
) -> Sweep:
    """Run one experiment for each setting and seed; runs that fail are kept and named, and the others go on.

    Args:
        grid: Values by key, all combinations of which run: ``{"algo": ["flex", "adaptive"], "lr": [0.1, 0.2]}``. Or a
            list with the words of each run, ``[["algo=flex", "lr=0.1"], ["algo=adaptive"]]``, or with its keys.
        seeds: How many seeds each setting runs with (5: the seeds 1 to 5), or a list of them.
        parallel: 1: one run after another, in this process. N: in N processes of this machine, on a Ray that is started
            for them. ``"ray"``: on the CPUs of all nodes of the Ray cluster that runs here or at
            ``cluster={"address": "HOST:PORT"}``; if none runs, on all CPUs of this machine. Nodes need share no disk:
            run folders come home, but data that keys name by a path must be there on each node.
        folder: The sweep's folder, with a run folder for each run, which is kept. None: a temporary one. The same call
            again with ``resume="auto"`` does only what is missing.
        keys: What all runs share, as for :func:`flexray.simulate`. Without ``cluster`` each run has one process
            (``cluster="inline"``), also within ``with flexray.cluster(...)`` if ``parallel`` is not 1.

    Raises:
        flexray.core.errors.UserError: A key is wrong or the folder holds runs; nothing has run.
        flexray.core.errors.ResourceError: There are no processes (any more); what is done is in the folder.
        KeyboardInterrupt: Ctrl-C ended the sweep, after the rounds that were computed; what is done is in the folder.

    Example:
        >>> import flexray
        >>> found = flexray.sweep({"algo": ["flex", "vafl"], "lr": [0.01, 0.02]}, seeds=[7], rounds=4, progress=False)
        >>> [run.time_to(0.2) for run in found]
        [120.0, 120.0, None, None]
    """
    side_by_side = parallel == "ray" or _processes(parallel) > 1
    swept = swept_by(grid)
    wanted = entries(grid, seeds, keys, "" if CURRENT.get() and not side_by_side else "cluster=inline")
    home = TemporaryFolder() if folder is None else None
    place = home.path if home else Path(os.path.abspath(Path(folder or "").expanduser()))
    merged: Merged = {}
    planned = plan(wanted, swept, place, side_by_side, folder is not None, merged)
    members = [Run(run.folder, run.entry.given.objects, True, home) for run in planned]
    ended = 0

    def note(number: int, error: str | None) -> None:
        nonlocal ended
        ended += 1
        if error is not None:
            log.error("run %s failed: %s", planned[number].name, error)
        if progress is not None:
            progress.job_ended()

    progress = _progress(planned)
    try:
        if side_by_side:
            run_side_by_side(planned, _pool(parallel, planned), swept, note)
        else:
            run_here(planned, Among(swept, progress, merged=merged), note)
    except (KeyboardInterrupt, ResourceError) as end:
        if home:
            home.outlive()
        what = "stopped" if isinstance(end, KeyboardInterrupt) else str(end)
        how = f"flexray.read({os.fspath(place)!r}) has them; the same with folder=... and resume='auto' does the others"
        line = f"{what}; {ended} of {len(planned)} runs are done: {how}"
        raise type(end)(line) from None
    finally:
        if progress is not None:
            progress.stop()
    return Sweep(place, members, home)


def _processes(parallel: Any) -> int:
    if isinstance(parallel, str):
        raise ConfigError(f"parallel: expected 1, a number of processes, or 'ray', got {parallel!r}")
    return whole("parallel", parallel, low=1)


def _progress(planned: Sequence[Planned]) -> SweepProgress | None:
    from flexray.run.watch.sweep import SweepProgress

    return SweepProgress(len(planned)) if any(run.config.progress for run in planned) else None


def _pool(parallel: int | str, planned: Sequence[Planned]) -> Pool:
    if isinstance(parallel, int):
        return open_pool("parallel", LOCAL, num_cpus=parallel)
    return open_pool("cluster.address", planned[0].config.cluster.address)


def _error(read: Reported) -> str | None:
    """Return why a run failed, as its ``run.log`` says, or what is wrong with its folder."""
    if read.status == DAMAGED:
        return read.fault
    file = read.folder / LOG_FILE
    said = FAILURE.findall(read_text(file)) if read.status == UNFINISHED and file.exists() else []
    return said[-1] if said else None
