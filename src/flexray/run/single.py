"""One composed job: built, run, and written to its folder; for a command, a job of a sweep, and Python alike."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from flexray.config.compose import as_json, build_composed, typed_overrides
from flexray.config.schema import settle
from flexray.config.typed import key_of
from flexray.core.collector import MANY, rarer_collections
from flexray.core.errors import UserError
from flexray.core.runfolder import (
    CHECKPOINT_FOLDER,
    CONFIGURATION_FILE,
    HYDRA_FOLDER,
    SUMMARY_FILE,
    TENSORBOARD_FOLDER,
    check_files,
)
from flexray.run import hints
from flexray.run.places import Places
from flexray.run.resume import AUTO, completed_summary, record

if TYPE_CHECKING:  # torch is imported when a job is built: --help and mistyped keys are quicker without
    from flexray.config.job import Job
    from flexray.run.save.checkpoint import Checkpoint
    from flexray.run.watch.base import Observer
    from flexray.run.watch.sweep import SweepProgress
    from flexray.run.watch.totals import SumObserver

log = logging.getLogger("flexray")


class Asked:
    """A job as Hydra composed it: its configuration, and in ``HydraConfig`` its folder, choices and overrides."""

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg
        self.hydra: Any = HydraConfig.get()
        self.folder = Path(self.hydra.runtime.output_dir)
        self.cwd = Path(self.hydra.runtime.cwd)
        self.overrides = typed_overrides(self.hydra)
        self._is_recorded = False

    @cached_property
    def config(self) -> dict[str, Any]:
        """The configuration as it is stored in JSON files."""
        return as_json(self.cfg)

    def settle(self) -> None:
        """Put numbers in place of what files give by algorithm, also in a new folder's record."""
        check_files(self.folder)
        settle(self.cfg)
        if not (self.folder / HYDRA_FOLDER).exists():  # that of an earlier run stays until this one begins
            self.record()

    def record(self, begins: bool = True) -> None:
        """Write the folder's record, unless that was done; ``begins`` as in :func:`flexray.run.resume.record`."""
        if not self._is_recorded:
            record(self.folder, self.cfg, self.overrides, begins)
        self._is_recorded = True

    def completed(self) -> dict[str, Any] | None:
        """Return the summary of this very job if ``resume=auto`` finds it completed."""
        return completed_summary(self.folder, self.config) if self.cfg.get("resume") == AUTO else None


@dataclass
class SingleRun:
    """A job and what it shares with others.

    Args:
        asked: The job, settled.
        places: Where it runs.
        base_dir: Folder that relative paths start from.
        resumes: Whether it goes on with the run in its folder.
        swept: Keys that a sweep goes through.
        quiet: Show no progress.
        sweep: The progress of a sweep.
        objects: Python objects by dotted key.
        interrupted: Whether a signal ended it, after its round.
    """

    asked: Asked
    places: Places
    base_dir: Path
    resumes: bool = False
    swept: Collection[str] = ()
    quiet: bool = False
    sweep: SweepProgress | None = None
    objects: Mapping[str, Any] = field(default_factory=dict)
    interrupted: bool = field(default=False, init=False)

    def run(self) -> dict[str, Any]:
        """Run the job to its end and return its summary, written to its folder.

        Raises:
            flexray.core.errors.FlexrayError: It cannot be run as it was asked for, or code of a participant raised.
        """
        from flexray.run.execution import Execution
        from flexray.run.watch.base import Observers
        from flexray.run.watch.chosen import chosen_sums
        from flexray.run.watch.summary import SummaryObserver
        from flexray.run.watch.terminal import announce_end

        started_s, asked = time.perf_counter(), self.asked
        with rarer_collections(MANY):  # what is built stays
            job = build_composed(
                asked.cfg, asked.hydra.runtime.choices, asked.overrides, self.base_dir, None, asked.folder, self.objects
            )
        hints.introduce(job)
        since = self._checkpoint(job)
        for line in (*hints.unread(asked.config, job.algo, self._typed()), *hints.outside_theory(job)):
            log.info("%s", line)
        sums = chosen_sums(job)
        summaries = SummaryObserver(job, sums)
        place = self.places.place_of(job, self.quiet, self.sweep.bars if self.sweep else None)
        watching = Observers(
            lambda: [summaries, *sums, *self._observers(job, since is not None, sums)],
            since.observers if since else None,
        )
        run = Execution(job, place, watching, asked.folder, asked.config)
        try:
            run.run(since)
        except UserError:
            with suppress(OSError):
                (asked.folder / CHECKPOINT_FOLDER).rmdir()  # a refusal leaves nothing behind; what is not empty stays
            raise
        finally:
            watching.close()
        if summaries.ended is None:
            raise RuntimeError("the driver ended without its last record")
        announce_end(summaries.ended)
        summary = summaries.summary(time.perf_counter() - started_s, summaries.first_s - started_s)
        summary["resumed_from"] = since.snapshot.round if since else None
        summary["failures"] = [vars(failure) for failure in run.failures]
        self.interrupted = run.interrupted
        _write(summary, asked.folder, asked.config)
        return summary

    def _typed(self) -> list[str]:
        """Return the keys that were typed, except those that a sweep goes through."""
        return [key for key in dict.fromkeys(map(key_of, self.asked.overrides)) if key not in self.swept]

    def _observers(self, job: Job, goes_on: bool, sums: Sequence[SumObserver]) -> list[Observer]:
        """Return the observers of a run that begins, or goes on, now."""
        from flexray.run.watch.chosen import chosen_trackers, usual_observers
        from flexray.run.watch.folder import discard

        asked, folder = self.asked, self.asked.folder
        events = sorted((folder / TENSORBOARD_FOLDER).glob("events.out.tfevents.*"))  # of an earlier run
        trackers = chosen_trackers(asked.config, job, folder, asked.cwd)  # first: may be refused
        (folder / CONFIGURATION_FILE).unlink(missing_ok=True)  # from now on the summary is not that of the run
        asked.record(begins=not self.resumes)
        if not goes_on:
            discard(folder, events)
        return [
            *trackers,
            *usual_observers(job, folder, goes_on, self.quiet, self.sweep, sums),
            *self.places.metrics_of(job),
        ]

    def _checkpoint(self, job: Job) -> Checkpoint | None:
        """Return where the job goes on, if it does not begin."""
        from flexray.run.execution import checkpoint_store, last_checkpoint
        from flexray.run.watch.chosen import check_state

        folder, config, found = self.asked.folder, self.asked.config, None
        if (store := checkpoint_store(job, folder)) is not None:
            store.storage.probe()
        if self.resumes:
            found = last_checkpoint(job, folder, config)
        elif config["resume"] == AUTO and (config["checkpoint"]["dir"] or (folder / CHECKPOINT_FOLDER).is_dir()):
            try:
                found = last_checkpoint(job, folder, config)
            except UserError as error:
                log.warning("%s; the run begins again", error)
        if found is not None:
            check_state(found.observers, folder, job)
        return found


def _write(summary: dict[str, Any], folder: Path, config: Mapping[str, Any]) -> None:
    """Write the summary and the configuration that it belongs to."""
    text = json.dumps(summary, indent=2, allow_nan=False)
    (folder / SUMMARY_FILE).write_text(f"{text}\n", encoding="utf-8")
    (folder / CONFIGURATION_FILE).write_text(json.dumps(config), encoding="utf-8")
