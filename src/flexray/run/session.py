"""The jobs of one command: one, or all of a sweep."""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from flexray.config.compose import as_json, build_composed, typed_overrides
from flexray.config.explain import explain, one_line, place_of
from flexray.config.schema import register, settle
from flexray.config.typed import key_of, swept_keys
from flexray.core.errors import FlexrayError, ParticipantError, UserError
from flexray.core.runfolder import CHECKPOINT_FOLDER, CONFIGURATION_FILE, HYDRA_FOLDER, check_files
from flexray.engine.driver.seam import unwatched
from flexray.engine.hosts.loopback import stay_on_loopback
from flexray.run import hints
from flexray.run.mailbox import Mailbox
from flexray.run.resume import AUTO, Resume, completed_summary, leaves, record, register_job_folder

if TYPE_CHECKING:  # torch is imported when a job is built: --help and mistyped keys are quicker without
    from flexray.config.job import Job
    from flexray.run.execution import Place
    from flexray.run.save.checkpoint import Checkpoint
    from flexray.run.watch.base import Observer
    from flexray.run.watch.sweep import SweepProgress

log = logging.getLogger("flexray")


class Asked:
    """A job as Hydra hands it over."""

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg
        self.hydra: Any = HydraConfig.get()
        self.folder = Path(self.hydra.runtime.output_dir)
        self.overrides = typed_overrides(self.hydra)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The configuration as it is stored in JSON files."""
        return as_json(self.cfg)

    def settle(self) -> None:
        """Put numbers in place of what files give by algorithm, also in a new folder's record."""
        check_files(self.folder)
        settle(self.cfg)
        if not (self.folder / HYDRA_FOLDER).exists():  # that of an earlier run stays until this one begins
            record(self.folder, self.cfg, self.overrides)


class Session:
    """The jobs of one command: one, or all of a sweep, which share a Ray cluster.

    Args:
        arguments: The command line, from which the number of jobs is known.
        resume: The run that the command continues.
    """

    def __init__(self, arguments: Sequence[str] = (), resume: Resume | None = None) -> None:
        self.exit_status = 0
        self.interrupted = False
        self._arguments = arguments
        self._resume = resume
        self._progress: SweepProgress | None = None
        self._summaries: list[dict[str, Any]] = []
        self._cluster: Any = None
        self._sweeping = False
        self._sweep_folder: str | None = None
        self._job = ""
        self._mailbox: Mailbox | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a launcher copies to another process, which posts its summary; this one collects them."""
        self._mailbox = self._mailbox or Mailbox()
        return {**vars(self), "_cluster": None, "_summaries": [], "_progress": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin in another process, which knows none of the configuration's resolvers yet."""
        vars(self).update(state)
        register()
        register_job_folder()

    @property
    def _is_copy(self) -> bool:
        return self._mailbox is not None and self._mailbox.is_copy

    def run_job(self, cfg: DictConfig) -> None:
        """Run one job; report its failure at once and let the next one go on."""
        asked = Asked(cfg)
        hydra = asked.hydra
        self._sweeping = hydra.mode is not None and hydra.mode.name == "MULTIRUN"
        self._job = f"job {hydra.job.num} ({hydra.job.override_dirname}): " if self._is_copy else ""
        self._sweep_folder = str(hydra.sweep.dir) if self._sweeping else None
        if self._mailbox is not None and self._is_copy:
            self._mailbox.note_sweep(str(hydra.sweep.dir))
        summary: dict[str, Any] | None = None
        if self._sweeping and cfg.progress and self._progress is None and not self._is_copy:
            from flexray.run.watch.sweep import SweepProgress

            self._progress = SweepProgress(self._job_count(hydra))
        try:
            asked.settle()
            summary = self._completed(asked) or self._run(asked)
            if summary["status"] != "completed":
                self.exit_status = max(self.exit_status, 1)
            if self._sweeping:
                self._collect(summary, asked)
        except KeyboardInterrupt:
            self.interrupted = True
            raise
        except FlexrayError as error:
            self._fail(str(error), error.exit_status, error.trace if isinstance(error, ParticipantError) else "")
        except OmegaConfBaseException as error:
            self._fail(explain(error), UserError.exit_status)
        except Exception as error:  # noqa: BLE001 - reported in full, and the other jobs of a sweep go on
            self._fail(place_of(error), 1, traceback.format_exc())
        finally:
            came_to_an_end = summary is not None and summary["status"] != "interrupted"
            if self._progress is not None and (not self.interrupted or came_to_an_end):
                self._progress.job_ended()
            if self._mailbox is not None and self._mailbox.is_copy:
                self._leave_cluster()
                self._mailbox.post(hydra.job.num, self.exit_status, summary)
                if cfg.progress and not self.interrupted:
                    hints.say_how_far(self._mailbox, self._job_count(hydra))

    def _job_count(self, hydra: Any) -> int | None:
        from flexray.run.watch.sweep import count_jobs

        return count_jobs(self._arguments, hydra.sweeper.get("params"))

    def _collect(self, summary: dict[str, Any], asked: Asked) -> None:
        """Collect what the table of the sweep needs; an interrupt ends the sweep, not only the job."""
        from flexray.run.watch.sweep import about_job

        summary |= about_job(dict(leaves(asked.config)), asked.hydra, asked.folder)
        self._summaries.append(summary)
        if self.interrupted:
            raise KeyboardInterrupt

    def _completed(self, asked: Asked) -> dict[str, Any] | None:
        """Return the summary of this very job if ``resume=auto`` finds it completed."""
        summary = completed_summary(asked.folder, asked.config) if asked.cfg.get("resume") == AUTO else None
        if summary is not None:
            log.info("%scompleted before, in %s", self._job, asked.folder)
        return summary

    def _fail(self, line: str, exit_status: int, trace: str = "") -> None:
        """Say once why a job failed: in one line, after the traceback if there is one."""
        self.exit_status = max(self.exit_status, exit_status)
        if trace:
            log.error("%s", trace.rstrip())
        log.error("flexray: %s%s", self._job, one_line(line))

    def _run(self, asked: Asked) -> dict[str, Any]:
        from flexray.run.execution import Execution
        from flexray.run.watch.base import Observers
        from flexray.run.watch.summary import SummaryObserver
        from flexray.run.watch.terminal import announce_end

        started_s, folder = time.perf_counter(), asked.folder
        base_dir = self._resume.base_dir if self._resume else Path(asked.hydra.runtime.cwd)
        job = build_composed(asked.cfg, asked.hydra.runtime.choices, asked.overrides, base_dir)
        hints.introduce(job)
        since = self._checkpoint(job, asked)
        for line in (*hints.unread(asked.config, job.algo, self._typed(asked)), *hints.outside_theory(job)):
            log.info("%s", line)
        summaries = SummaryObserver(job)
        place = self._place(job)
        watching = Observers(
            lambda: [summaries, *self._observers(asked, job, since is not None)], since.observers if since else None
        )
        run = Execution(job, place, watching, folder, asked.config)
        try:
            run.run(since)
        except UserError:
            with suppress(OSError):
                (folder / CHECKPOINT_FOLDER).rmdir()  # a refusal leaves nothing behind; what is not empty stays
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
        self._conclude(summary, asked)
        return summary

    def _conclude(self, summary: dict[str, Any], asked: Asked) -> None:
        """Write the summary and the configuration that it belongs to, and show what came out."""
        from flexray.run.watch.summary import summary_table, write_summary

        write_summary(asked.folder, summary)
        (asked.folder / CONFIGURATION_FILE).write_text(json.dumps(asked.config), encoding="utf-8")
        if self._is_copy:
            log.info("%s%s in %.1f s, %s", self._job, summary["status"], summary["wall_s"], asked.folder)
        else:
            Console().print(summary_table(summary, asked.folder))
        hints.say_job_stopped(summary, asked.folder, self._job, self._sweeping)

    def _typed(self, asked: Asked) -> list[str]:
        """Return the keys that were typed, except those that a sweep goes through."""
        axes = swept_keys(self._arguments) if self._sweeping else ()
        return [key for key in dict.fromkeys(map(key_of, asked.overrides)) if key not in axes]

    def _observers(self, asked: Asked, job: Job, goes_on: bool) -> list[Observer]:
        """Return the observers of a run that begins, or goes on, now."""
        from flexray.run.watch.chosen import chosen_trackers, run_name, usual_observers
        from flexray.run.watch.folder import discard, event_files
        from flexray.run.watch.tracking import ClusterMetrics

        folder, events = asked.folder, event_files(asked.folder)
        trackers = chosen_trackers(asked.config, job, folder, Path(asked.hydra.runtime.cwd))  # first: may be refused
        (folder / CONFIGURATION_FILE).unlink(missing_ok=True)  # from now on the summary is not that of the run
        record(folder, asked.cfg, asked.overrides, begins=self._resume is None)
        if not goes_on:
            discard(folder, events)
        files = usual_observers(job, folder, goes_on, self._is_copy, self._progress)
        inline = job.cluster.kind == "inline"
        metrics = [] if inline else [ClusterMetrics(self._cluster.instruments, run_name(job))]
        return [*trackers, *files, *metrics]

    def _checkpoint(self, job: Job, asked: Asked) -> Checkpoint | None:
        """Return where the job goes on, if it does not begin."""
        from flexray.run.execution import checkpoint_store, last_checkpoint
        from flexray.run.watch.chosen import check_state

        folder, config, found = asked.folder, asked.config, None
        if (store := checkpoint_store(job, folder)) is not None:
            store.storage.probe()
        if self._resume is not None:
            found = last_checkpoint(job, folder, config)
        elif config["resume"] == AUTO and (config["checkpoint"]["dir"] or (folder / CHECKPOINT_FOLDER).is_dir()):
            try:
                found = last_checkpoint(job, folder, config)
            except UserError as error:
                log.warning("%s; the run begins again", error)
        if found is not None:
            check_state(found.observers, folder, len(job.experiment.parties))
        return found

    def _place(self, job: Job) -> Place:
        if job.cluster.kind == "inline":
            from flexray.engine.hosts.inline import InlinePlace

            return InlinePlace()
        if self._cluster is None:
            if job.cluster.kind != "ray":
                stay_on_loopback()
            from flexray.engine.hosts.ray import RayCluster

            self._cluster = RayCluster()
        self._cluster.watch_setup = self._watch_setup if job.progress and not self._is_copy else unwatched
        place: Place = self._cluster
        return place

    def _watch_setup(self, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Show how many of so many processes have started."""
        from flexray.run.watch.terminal import setup_progress

        return setup_progress(total, shared=self._progress.bars if self._progress else None)

    def _leave_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def close(self) -> None:
        """Print the table of a sweep and leave the cluster."""
        if self._progress is not None:
            self._progress.stop()
        self._leave_cluster()
        if self._mailbox is not None:
            self._sweep_folder = self._mailbox.sweep_folder
        for exit_status, summary in self._mailbox.take() if self._mailbox is not None else ():
            self.exit_status, self._sweeping = max(self.exit_status, exit_status), True
            self._summaries += [summary] if summary else []
        if self._sweeping and self._summaries:
            from flexray.run.watch.sweep import sweep_table

            Console().print(sweep_table(self._summaries))
        stopped = self.interrupted or any(summary["status"] in hints.STOPPED for summary in self._summaries)
        if stopped and self._sweep_folder is not None:
            hints.say_sweep_stopped(self._arguments, self._sweep_folder)
