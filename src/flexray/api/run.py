"""A run as Python has it: tables, model, predictions and figures of a run folder."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omegaconf.errors import OmegaConfBaseException

from flexray.api.data import write_data
from flexray.api.figures import Axis, check_metric, figure
from flexray.api.launch import launch
from flexray.api.process import borrowed_process
from flexray.config.explain import explained
from flexray.config.given import Given, is_table, read_keys
from flexray.config.typed import quoted
from flexray.core.errors import ConfigError, RunFolderError
from flexray.core.runfolder import MODEL_FOLDER, SUMMARY_FILE, read_json
from flexray.report import runs
from flexray.report.folders import read_run

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import nn


class Run:
    """A run and its folder.

    What it offers is read from the folder when it is asked for, once. Numbers have their units in the names of columns:
    ``sim_time_units`` is simulated time in units, with ``clock=wall`` it is ``sim_time_seconds``.

    Args:
        folder: The run folder.
        objects: Python objects by dotted key.
        trust: Whether the folder may set what a stranger's may not.
        home: A temporary folder that lives as long as this run.

    Example:
        >>> import flexray
        >>> run = flexray.simulate("dataset=digits", algo="adaptive", rounds=4, cluster="inline", progress=False)
        >>> run
        <Run adaptive on digits: completed, 4 rounds, test_top1 0.4...>
        >>> run.time_to(0.3)
        120.0
    """

    def __init__(
        self, folder: Path, objects: Mapping[str, Any] | None = None, trust: bool = False, home: Any = None
    ) -> None:
        self.folder = folder
        self._objects = dict(objects or {})
        self._trust = trust
        self._home = home

    def __fspath__(self) -> str:
        """Return the folder, so that a run may be given where a run folder may: ``speeds={"path": run}``."""
        return os.fspath(self.folder)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """``summary.json``: final metrics, time, rounds and bytes to target, digests of all models, versions.

        Raises:
            RunFolderError: The run has not come to an end.
        """
        if not (self.folder / SUMMARY_FILE).exists():
            raise RunFolderError(
                f"{self.folder}: has no {SUMMARY_FILE}: the run goes on, or was killed; resume() helps"
            )
        with self._naming_folder():
            return read_json(self.folder / SUMMARY_FILE)

    @property
    def status(self) -> str:
        """``completed``, ``diverged``, ``interrupted``, ``failed``, ``unfinished`` or ``damaged``."""
        return self._read.status

    @cached_property
    def evals(self) -> pd.DataFrame:
        """A row per evaluation: ``round``, ``epoch``, ``sim_time_units`` and a column per metric."""
        from flexray.api.tables import evals_table

        with self._naming_folder():
            return evals_table(self.folder, self._unit)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row per round: ``round``, ``sim_time_units``, ``duration_units``, ``train_loss``, ``sent_bytes``."""
        from flexray.api.tables import rounds_table

        with self._naming_folder():
            return rounds_table(self.folder, self._unit)

    @cached_property
    def participants(self) -> pd.DataFrame:
        """A row per round and participant: ``local_iterations``, ``lr``, ``utilization`` (a part of 1), ``absent``."""
        from flexray.api.tables import participants_table

        with self._naming_folder():
            return participants_table(self.folder, self._read.names)

    @cached_property
    def timeline(self) -> pd.DataFrame:
        """A row per span: ``participant``, ``activity``, ``begin_units``, ``duration_units``.

        An activity is ``compute``, ``communicate``, ``wait`` or ``absent``. The first 1,000 rounds are there, or as
        many as ``timeline_rounds`` says.
        """
        from flexray.api.tables import timeline_table

        with self._naming_folder():
            return timeline_table(self.folder, self._unit)

    @cached_property
    def models(self) -> dict[str, nn.Module]:
        """The trained model of every party and of the ``server``, by name, in eval mode.

        Raises:
            UserError: The run has not ended, or its folder may not set what the models need.
        """
        from flexray.run.predictor import Predictor

        with self._saved_job() as job:
            return Predictor(job, self.folder / MODEL_FOLDER).models()

    def predict(
        self,
        data: Any = None,
        split: Literal["train", "val", "test", "all"] | None = None,
        without: str | Sequence[str] = (),
    ) -> pd.DataFrame:
        """Return what ``python -m flexray.predict`` writes.

        Args:
            data: New samples for ``dataset.path``: a path, a DataFrame, or arrays by name; for a run that has
                ``dataset.files``, a mapping from parties to paths or DataFrames. None: the run's own data.
            split: Samples to predict; None: the test split or, of a new table, all.
            without: Parties that take no part; what stands in for their embeddings is the run's ``missing.stand_in``.

        Returns:
            A row per sample: ``id``, ``prediction``, ``label`` and, of classes, ``p0``, ``p1``, ...

        Raises:
            UserError: The run has not ended, or the data does not fit its model.
        """
        import pandas as pd

        from flexray.data.base import SPLITS
        from flexray.predict import predictions

        if split not in (None, "all", *SPLITS):
            raise ConfigError(f"split: expected one of {', '.join(SPLITS)}, all, got {split!r}")
        with (
            tempfile.TemporaryDirectory(prefix="flexray-") as home,
            self._saved_job(_new_data(data, Path(home))) as job,
        ):
            found = predictions(job, self.folder, split, [without] if isinstance(without, str) else without)
            return pd.DataFrame(list(found.rows), columns=found.columns)

    def time_to(self, target: float, metric: str | None = None) -> float | None:
        """Return the simulated time of the first evaluation that met a target; None if none did.

        Args:
            target: The value to reach.
            metric: A column of :attr:`evals`; by default the one of the run's own target. Losses and errors are to fall
                to the target, others to rise to it.

        Raises:
            ConfigError: The run has no such metric.
        """
        reached = self._with_target(target, metric or self._read.metric).reached()
        return reached.time if reached else None

    def plot(self, metric: str | None = None, by: Axis = "time") -> Figure:
        """Return the report's figure of a metric.

        Args:
            metric: A column of :attr:`evals`; by default the one of the run's own target, which is shown, too.
            by: The axis: simulated ``time``, ``rounds``, or ``bytes`` that were sent.

        Raises:
            UserError: The run has no such metric or axis, or no evaluation yet.
        """
        return figure([self._read], metric, by, self.folder)

    def resume(self, *overrides: str, **keys: Any) -> Run:
        """Go on from the last checkpoint, to other limits, and return the run with all its rounds.

        Args:
            overrides: Words of the command line, such as ``"rounds=80"``.
            keys: The same as keys: ``rounds=80``, ``epochs``, ``max_time``, ``cluster`` and others that change no
                number until now.

        Raises:
            UserError: The run cannot go on, or not with these keys.
            KeyboardInterrupt: The run was interrupted; it can be resumed once more.
        """
        given = read_keys(keys)
        given = Given(given.words, {**self._objects, **given.objects}, given.data)
        words = [f"resume={quoted(os.fspath(self.folder))}", *overrides, *given.words]
        launch([*words, *(["trust=true"] if self._trust else [])], given, self.folder, is_kept=False)
        return Run(self.folder, given.objects, self._trust, self._home)

    @contextmanager
    def _naming_folder(self) -> Iterator[None]:
        """Have what is wrong with a file name the run folder, too."""
        try:
            yield
        except RunFolderError as error:
            raise RunFolderError(f"{self.folder}: {error}") from error

    @cached_property
    def _read(self) -> runs.Run:
        return read_run(self.folder, self.folder.name)

    @property
    def _unit(self) -> str:
        unit = self._read.time_unit
        return unit if unit in ("units", "seconds") else "units"

    def _with_target(self, target: float, metric: str) -> runs.Run:
        check_metric(metric, set(self._read.evals.metrics if self._read.evals else ()))
        return self._read.with_target(metric, target)

    @contextmanager
    def _saved_job(self, overrides: tuple[str, ...] = ()) -> Iterator[Any]:
        """Give the job that the saved model is of, in a process that is left as it was."""
        from flexray.engine.hosts.inline import borrowed_torch
        from flexray.predict import load_job

        with borrowed_process(), borrowed_torch(), explained((OmegaConfBaseException,)):
            yield load_job(self.folder, [*overrides, *(["trust=true"] if self._trust else [])], self._objects)

    def __repr__(self) -> str:
        found = self._read
        what = f"{found.text('algo')} on {found.text('dataset')}: {found.status}, {found.length} rounds"
        final = "" if found.final is None else f", {found.metric} {found.final:.4f}"
        return f"<Run {what}{final}>"

    def _repr_html_(self) -> str:
        from flexray.run.watch.summary import summary_rows, summary_title

        try:
            found = summary_rows(self.summary, self.folder) if self.status in runs.ENDS else []
        except (RunFolderError, LookupError, TypeError, ValueError, AttributeError):  # of somebody else's summary
            found = []
        if not found:
            return f"<pre>{html.escape(repr(self))}</pre>"
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in found
        )
        return f"<table><caption>{html.escape(summary_title(self.summary))}</caption>{rows}</table>"


def _new_data(data: Any, home: Path) -> tuple[str, ...]:
    """Return the words by which new data replaces the run's own, after it was written to a temporary folder."""
    if data is None:
        return ()
    by_party = isinstance(data, Mapping) and any(is_table(v) or isinstance(v, str | os.PathLike) for v in data.values())
    given = read_keys({"dataset": {"files" if by_party else "path": data}})
    write_data(home, given.data)
    flat = {f"dataset.files.{name}": value for name, value in data.items()} if by_party else {"dataset.path": data}
    written = {key: home / name for name in given.data for key in flat if name in (key, f"{key}{Path(name).suffix}")}
    return tuple(f"{key}={json.dumps(os.fspath(written.get(key, value)))}" for key, value in flat.items())
