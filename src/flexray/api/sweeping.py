"""Runs what a sweep consists of: one run after another in this process, or side by side in processes of a Ray."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict, read_write

from flexray.api.grid import Entry
from flexray.api.launch import Among, check_new, launch
from flexray.api.process import run_log
from flexray.cluster.warm import CURRENT, Cluster
from flexray.config.compose import as_json, borrowed_hydra, compose_all, typed_overrides, without_hydra
from flexray.config.explain import explained, place_of
from flexray.config.remembered import Merged
from flexray.config.typed import typed_value
from flexray.core.errors import ConfigError, FlexrayError
from flexray.core.runfolder import HYDRA_FOLDER, LOG_FILE, SUMMARY_FILE, check_files
from flexray.run.errands import Away, Errand, Report, bring_home, run_away
from flexray.run.resume import AUTO, FREE, completed_summary, job_folder, record, settled
from flexray.run.save.parcel import pack

if TYPE_CHECKING:
    from flexray.engine.hosts.jobs import Pool

log = logging.getLogger("flexray")


@dataclass(frozen=True)
class Planned:
    """A run of a sweep.

    Args:
        entry: Its keys.
        config: Its configuration, Hydra's part included.
        sweep: The sweep's folder.
        name: The run folder's name in it.
    """

    entry: Entry
    config: DictConfig
    sweep: Path
    name: str

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.sweep / self.name

    def is_done(self) -> bool:
        """Whether ``resume="auto"`` finds it completed."""
        return self.config.resume == AUTO and completed_summary(self.folder, as_json(settled(self.config))) is not None

    def note(self, line: str) -> None:
        """Leave in the run folder why there is nothing else in it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with borrowed_hydra():
            HydraConfig.instance().set_config(self.config)
            if not (self.folder / HYDRA_FOLDER).exists():
                record(self.folder, without_hydra(copy.deepcopy(self.config)), typed_overrides(self.config.hydra))
        form = str(self.config.hydra.job_logging.formatters.file.format)
        with suppress(FlexrayError), run_log(self.folder / LOG_FILE, form):
            raise FlexrayError(line)


def plan(
    entries: Sequence[Entry], swept: Sequence[str], sweep: Path, away: bool, is_kept: bool, merged: Merged
) -> list[Planned]:
    """Compose all runs, so that a mistake is found before the first begins.

    Args:
        entries: The runs.
        swept: The keys in which they differ.
        sweep: The sweep's folder.
        away: Whether they run in other processes, with ``cluster=inline``.
        is_kept: Whether the folder was named by the caller.
        merged: What the runs remember of configuration files.

    Raises:
        flexray.core.errors.UserError: A key is wrong, or the folder holds runs that do not go on.
    """
    limits = [key for key in swept if key in FREE]
    found, composed = [], dict[int, DictConfig]()
    with borrowed_hydra():
        for number, entry in enumerate(entries):
            if id(entry.given) not in composed:
                composed[id(entry.given)] = _compose(entry, away, is_kept, merged)
            config = copy.deepcopy(composed[id(entry.given)])
            with read_write(config.hydra), open_dict(config.hydra):
                config.seed, config.hydra.job.num, config.hydra.sweep.dir = entry.seed, number, os.fspath(sweep)
                name = job_folder(*limits, _root_=config) if config.resume == AUTO else str(number)
                config.hydra.runtime.output_dir = os.fspath(sweep / name)
            found.append(Planned(entry, config, sweep, name))
    for run in found:
        check_files(run.folder)
        if run.config.resume is None:
            check_new(run.folder)
    return found


def _compose(entry: Entry, away: bool, is_kept: bool, merged: Merged) -> DictConfig:
    words = entry.words
    value = typed_value(words, "resume")
    if value not in (None, AUTO) or (value == AUTO and not is_kept):
        raise ConfigError("resume: a sweep goes on with resume='auto' beside folder=...")
    with explained():
        config = compose_all(words, merged)
    if away and config.cluster.kind != "inline":
        raise ConfigError(
            f"cluster: runs side by side have one process each; expected inline, or none, got {config.cluster.kind}"
        )
    return config


def run_here(runs: Sequence[Planned], among: Among, ended: Callable[[int, str | None], None]) -> None:
    """Run one after another in this process, which shares the processes of a Ray among them.

    Args:
        runs: The runs.
        among: What they share.
        ended: Is called with number and error of each run that was not interrupted.
    """
    with nullcontext() if CURRENT.get() else Cluster():
        for number, run in enumerate(runs):
            error = None
            try:
                launch(run.entry.words, run.entry.given, run.folder, among=among)
            except FlexrayError as failure:
                error = str(failure)
            except Exception as failure:  # noqa: BLE001 - named with its place, and the other runs go on
                error = place_of(failure)
                run.note(error)
            ended(number, error)


def run_side_by_side(
    runs: Sequence[Planned], pool: Pool, swept: Sequence[str], ended: Callable[[int, str | None], None]
) -> None:
    """Run many at once, each in one process; see :func:`flexray.run.errands.run_away`.

    Args:
        runs: The runs.
        pool: Where.
        swept: The keys in which they differ.
        ended: Is called with number and error of each run that was not interrupted.
    """
    errands, among = {}, Among((*swept, "cluster.address"), None, Path.cwd())
    for number, run in enumerate(runs):
        if run.is_done():
            ended(number, None)
        else:
            errands[number] = Errand(partial(run_there, run.entry, among), run.sweep, run.name, pack(run.folder))
    with closing(run_away(pool, errands)) as results:
        for number, found in results:
            error = _bring_home(runs[number], errands[number], found)
            if isinstance(found, FlexrayError) or not found.interrupted:
                ended(number, error)


def run_there(entry: Entry, among: Among, place: Away) -> tuple[str | None, bool]:
    """Run an entry where it has come to; return why it failed, if it did, and whether it was interrupted.

    Raises:
        KeyboardInterrupt: It was interrupted before its first round.
    """
    try:
        launch(entry.words, entry.given, place.folder, among=among)
    except KeyboardInterrupt:
        if not (place.folder / SUMMARY_FILE).exists():
            raise
        return None, True
    except FlexrayError as failure:
        ((_, error),) = place.at_home([(logging.ERROR, str(failure))], interrupted=False)
        return error, False
    return None, False


def _bring_home(run: Planned, errand: Errand[str | None], found: Report[str | None] | FlexrayError) -> str | None:
    """Unpack what a run left, and return why it failed, if it did."""
    try:
        report = bring_home(found, errand)
    except FlexrayError as failure:
        run.note(str(failure))
        return str(failure)
    for level, text in report.said:
        log.log(level, "run %s: %s", run.name, text)
    return report.result
