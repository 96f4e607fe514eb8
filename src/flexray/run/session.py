"""The jobs of one command: one, or all of a sweep."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from flexray.config.compose import as_plain, build_composed, typed_overrides
from flexray.config.explain import explain, one_line, place_of
from flexray.config.overrides import FLAGS, key_of
from flexray.config.schema import config_folder, register, settle
from flexray.config.typed import is_sweep
from flexray.core.errors import FlexrayError, ParticipantError, UserError
from flexray.core.runfolder import check_files
from flexray.engine.driver.seam import unwatched
from flexray.engine.hosts.loopback import stay_on_loopback
from flexray.run.again import AUTO, checkpoint_if_any, completed_summary, forget, register_job_folder, remember
from flexray.run.hints import STOPPED, say_how_far, say_job_stopped, say_sweep_stopped
from flexray.run.mailbox import Mailbox
from flexray.run.resume import Resume, as_json, leaves, record

if TYPE_CHECKING:  # torch is imported when a job is built: --help and mistyped keys are quicker without
    from flexray.config.job import Job
    from flexray.run.execution import Place
    from flexray.run.save.checkpoint import Checkpoint
    from flexray.run.watch.base import Observer
    from flexray.run.watch.sweep_progress import SweepProgress

log = logging.getLogger("flexray")


class Session:
    """The jobs of one command: one, or all of a sweep, which share a Ray cluster.

    Args:
        arguments: What was typed, from which the number of jobs is known.
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
        chosen = HydraConfig.get()
        self._sweeping = chosen.mode is not None and chosen.mode.name == "MULTIRUN"
        self._job = f"job {chosen.job.num} ({chosen.job.override_dirname}): " if self._is_copy else ""
        self._sweep_folder = str(chosen.sweep.dir) if self._sweeping else None
        if self._mailbox is not None and self._is_copy:
            self._mailbox.note_sweep(str(chosen.sweep.dir))
        summary: dict[str, Any] | None = None
        if self._sweeping and cfg.progress and self._progress is None and not self._is_copy:
            from flexray.run.watch.sweep_progress import SweepProgress, count_jobs

            self._progress = SweepProgress(count_jobs(self._arguments))
        try:
            self._settle(cfg, chosen)
            summary = self._completed(cfg, chosen) or self._run(cfg, chosen)
            if summary["status"] != "completed":
                self.exit_status = max(self.exit_status, 1)
            if self._sweeping:
                self._keep(summary, cfg, chosen)
        except KeyboardInterrupt:
            self.interrupted = True
            raise
        except FlexrayError as error:
            self._fail(str(error), error.exit_status, error.trace if isinstance(error, ParticipantError) else "")
        except OmegaConfBaseException as error:
            self._fail(explain(error, config_folder()), UserError.exit_status)
        except Exception as error:  # noqa: BLE001 - told in full, and the other jobs of a sweep go on
            self._fail(place_of(error), 1, traceback.format_exc())
        finally:
            if self._progress is not None and (not self.interrupted or _came_to_an_end(summary)):
                self._progress.job_ended()
            if self._mailbox is not None and self._mailbox.is_copy:
                self._leave_cluster()
                self._mailbox.post(chosen.job.num, self.exit_status, summary)
                if cfg.progress and not self.interrupted:
                    say_how_far(self._mailbox, self._arguments)

    def _keep(self, summary: dict[str, Any], cfg: DictConfig, chosen: Any) -> None:
        """Keep what the table of the sweep needs; an interrupt ends the sweep, not only the job."""
        from flexray.run.sweep import about_job

        summary |= about_job(dict(leaves(as_json(as_plain(cfg)))), chosen, Path(chosen.runtime.output_dir))
        self._summaries.append(summary)
        if self.interrupted:
            raise KeyboardInterrupt

    @staticmethod
    def _settle(cfg: DictConfig, chosen: Any) -> None:
        """Let the configuration, and a new folder's record of it, say the numbers that a file gives by algorithm."""
        folder = Path(chosen.runtime.output_dir)
        check_files(folder)
        settle(cfg)
        if not (folder / ".hydra").exists():  # that of an earlier run stays until this one begins
            record(folder, cfg, typed_overrides(chosen))

    def _completed(self, cfg: DictConfig, chosen: Any) -> dict[str, Any] | None:
        """Return the summary of this very job if ``resume=auto`` finds it completed."""
        if cfg.get("resume") != AUTO:
            return None
        folder = Path(chosen.runtime.output_dir)
        summary = completed_summary(folder, as_plain(cfg))
        if summary is not None:
            log.info("%scompleted before, in %s", self._job, folder)
        return summary

    def _fail(self, line: str, exit_status: int, trace: str = "") -> None:
        """Tell once why a job failed: in one line, after the traceback if there is one."""
        self.exit_status = max(self.exit_status, exit_status)
        if trace:
            log.error("%s", trace.rstrip())
        log.error("flexray: %s%s", self._job, one_line(line))

    def _run(self, cfg: DictConfig, chosen: Any) -> dict[str, Any]:
        from flexray.run.execution import Execution
        from flexray.run.introduce import introduce, say_what_has_no_effect
        from flexray.run.watch.base import Late
        from flexray.run.watch.summary import SummaryObserver, summary_table, write_summary
        from flexray.run.watch.terminal import announce_end

        started_s = time.perf_counter()
        base_dir = self._resume.base_dir if self._resume else Path(chosen.runtime.cwd)
        job = build_composed(cfg, chosen.runtime.choices, typed_overrides(chosen), base_dir)
        plain = as_plain(cfg)
        introduce(job)
        folder = Path(chosen.runtime.output_dir)
        since = self._checkpoint(job, folder, plain)
        say_what_has_no_effect(job, plain, self._typed(chosen))
        summaries = SummaryObserver(job)
        place = self._place(job)
        watching = Late(lambda: self._watch(cfg, chosen, job, summaries, since))
        run = Execution(job, place, watching, folder, as_json(plain))
        try:
            run.run(since)
        except UserError:
            with suppress(OSError):
                (folder / "checkpoints").rmdir()  # a refusal leaves nothing behind; what is not empty stays
            raise
        finally:
            watching.close()
        if summaries.ended is None:
            raise RuntimeError("the driver ended without its last record")
        announce_end(summaries.ended)
        summary = summaries.summary(time.perf_counter() - started_s, summaries.first_s - started_s)
        summary["resumed_from"] = since.snapshot.round if since else None
        summary["failures"] = [vars(failure) for failure in run.failures]
        write_summary(folder, summary)
        remember(folder, plain)
        if self._is_copy:
            log.info("%s%s in %.1f s, %s", self._job, summary["status"], summary["wall_s"], folder)
        else:
            Console().print(summary_table(summary, folder))
        self.interrupted = run.interrupted
        say_job_stopped(summary, folder, self._job, self._sweeping)
        return summary

    def _typed(self, chosen: Any) -> list[str]:
        """Return the keys that were typed, but for those that a sweep goes through."""
        axes = {key_of(a) for a in self._arguments if self._sweeping and a not in FLAGS and is_sweep(a)}
        return [key for key in dict.fromkeys(map(key_of, typed_overrides(chosen))) if key not in axes]

    def _watch(self, cfg: DictConfig, chosen: Any, job: Job, summaries: Observer, since: Checkpoint | None) -> Observer:
        """Return what watches a run that begins, or goes on, now."""
        from flexray.run.watch.base import Observers
        from flexray.run.watch.chosen import chosen_trackers, usual_observers
        from flexray.run.watch.folder import discard, event_files

        folder, config = Path(chosen.runtime.output_dir), as_plain(cfg)
        events = event_files(folder)
        trackers = chosen_trackers(config, job, folder, Path(chosen.runtime.cwd))  # before files: one may be refused
        forget(folder)
        record(folder, cfg, typed_overrides(chosen), begins=self._resume is None)
        if since is None:
            discard(folder, events)
        files = usual_observers(job, folder, since is not None, self._is_copy, self._progress)
        watching = Observers([summaries, *trackers, *files, *self._metrics(job)])
        if since is not None:
            watching.rewind(since.marks)
        return watching

    def _checkpoint(self, job: Job, folder: Path, config: dict[str, Any]) -> Checkpoint | None:
        """Return where the job goes on, if it does not begin."""
        from flexray.run.execution import checkpoint_store, last_checkpoint
        from flexray.run.watch.marks import check_marks

        if (store := checkpoint_store(job, folder)) is not None:
            store.probe()
        found = None
        if self._resume is not None:
            found = last_checkpoint(job, folder, config)
        elif config["resume"] == AUTO:
            found = checkpoint_if_any(job, folder, config)
        if found is not None:
            check_marks(found.marks, folder, len(job.experiment.parties))
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

    def _metrics(self, job: Job) -> list[Observer]:
        """Return what feeds the monitoring of the Ray cluster that the job runs on."""
        if job.cluster.kind == "inline":
            return []
        from flexray.run.watch.chosen import run_name
        from flexray.run.watch.cluster_metrics import ClusterMetrics

        return [ClusterMetrics(self._cluster.instruments, run_name(job))]

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
            from flexray.run.sweep import sweep_table

            Console().print(sweep_table(self._summaries))
        stopped = self.interrupted or any(summary["status"] in STOPPED for summary in self._summaries)
        if stopped and self._sweep_folder is not None:
            say_sweep_stopped(self._arguments, self._sweep_folder)


def _came_to_an_end(summary: dict[str, Any] | None) -> bool:
    return summary is not None and summary["status"] != "interrupted"
