"""The jobs of one command: one, or all of a sweep."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from flexray.config.explain import explain, one_line, place_of
from flexray.config.schema import register
from flexray.config.typed import swept_keys
from flexray.core.errors import FlexrayError, ParticipantError, UserError
from flexray.core.runfolder import leaves
from flexray.run import hints
from flexray.run.mailbox import Mailbox
from flexray.run.places import Places
from flexray.run.resume import Resume, register_job_folder
from flexray.run.single import Asked, SingleRun

if TYPE_CHECKING:
    from flexray.run.watch.sweep import SweepProgress

log = logging.getLogger("flexray")


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
        self._places = Places()
        self._sweeping = False
        self._sweep_folder: str | None = None
        self._job = ""
        self._mailbox: Mailbox | None = None
        self._is_away = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what a launcher copies to another process, which posts its summary; this one collects them."""
        self._mailbox = self._mailbox or Mailbox()
        return {**vars(self), "_places": Places(), "_summaries": [], "_progress": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin in another process, which knows none of the configuration's resolvers yet."""
        vars(self).update(state)
        register()
        register_job_folder()

    @property
    def _is_copy(self) -> bool:
        return self._mailbox is not None and self._mailbox.is_copy

    @cached_property
    def _swept(self) -> list[str]:
        return swept_keys(self._arguments)

    def run_job(self, cfg: DictConfig) -> None:
        """Run one job; report its failure at once and let the next one go on."""
        asked = Asked(cfg)
        hydra = asked.hydra
        self._sweeping = hydra.mode is not None and hydra.mode.name == "MULTIRUN"
        self._job = hints.job_name(hydra) if self._is_copy else ""
        self._sweep_folder = str(hydra.sweep.dir) if self._sweeping else None
        if self._mailbox is not None and self._is_copy:
            self._mailbox.note_sweep(str(hydra.sweep.dir))
        summary: dict[str, Any] | None = None
        if self._sweeping and cfg.progress and not self._is_copy:
            self._show_progress(hydra)
        try:
            asked.settle()
            summary = self._run(asked)
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
            if self._mailbox is not None:
                self._mailbox.post(hydra.job.num, self.exit_status, summary)
            if self._mailbox is not None and self._is_copy:
                self._places.close()
                if cfg.progress and not self.interrupted and not self._is_away:
                    hints.say_how_far(self._mailbox, self._job_count(hydra))

    def _show_progress(self, hydra: Any) -> None:
        from flexray.run.watch.sweep import SweepProgress

        self._progress = self._progress or SweepProgress(self._job_count(hydra))

    def move_to(self, folder: Path) -> Mailbox:
        """Have this copy, on another machine, post its summary in a folder there; return its mailbox."""
        self._mailbox, self._is_away = (self._mailbox or Mailbox()).moved(folder), True
        return self._mailbox

    def expect(self, config: DictConfig) -> None:
        """Get ready for jobs that run on other machines.

        Args:
            config: The sweep's configuration, Hydra's part included.
        """
        self._mailbox = self._mailbox or Mailbox()
        self._mailbox.note_sweep(str(config.hydra.sweep.dir))
        if config.progress:
            self._show_progress(config.hydra)

    def receive(self, number: int, exit_status: int, summary: dict[str, Any] | None) -> None:
        """Collect the outcome of a job that ran on another machine; no summary: it failed."""
        if self._mailbox is not None:
            self._mailbox.post(number, exit_status, summary)
        if self._progress is not None and (summary is None or summary["status"] != "interrupted"):
            self._progress.job_ended(summary["wall_s"] if summary else None)

    def _job_count(self, hydra: Any) -> int | None:
        from flexray.run.watch.sweep import count_jobs

        return count_jobs(self._arguments, hydra.sweeper.get("params"))

    def _collect(self, summary: dict[str, Any], asked: Asked) -> None:
        """Collect what the table of the sweep needs; an interrupt ends the sweep, not only the job."""
        from flexray.run.watch.sweep import about_job

        summary |= about_job(dict(leaves(asked.config)), asked.hydra, asked.folder)
        if self._mailbox is None:  # else it is posted
            self._summaries.append(summary)
        if self.interrupted:
            raise KeyboardInterrupt

    def _fail(self, line: str, exit_status: int, trace: str = "") -> None:
        """Say once why a job failed: in one line, after the traceback if there is one."""
        self.exit_status = max(self.exit_status, exit_status)
        if trace:
            log.error("%s", trace.rstrip())
        log.error("flexray: %s%s", self._job, one_line(line))

    def _run(self, asked: Asked) -> dict[str, Any]:
        """Return the summary of this job, completed before or run now, and show what came out."""
        if (summary := asked.completed()) is not None:
            log.info("%scompleted before, in %s", self._job, asked.folder)
            return summary
        base_dir = self._resume.base_dir if self._resume else asked.cwd
        swept = [*self._swept, *(["cluster.address"] if self._is_away else [])] if self._sweeping else ()
        single = SingleRun(
            asked, self._places, base_dir, self._resume is not None, swept, self._is_copy, self._progress
        )
        try:
            summary = single.run()
        finally:
            self.interrupted = single.interrupted
        self._show(summary, asked.folder)
        return summary

    def _show(self, summary: dict[str, Any], folder: Path) -> None:
        from flexray.run.watch.summary import summary_table

        if self._is_copy:
            hints.say_job_ended(summary, folder, self._job)
        else:
            Console().print(summary_table(summary, folder))
        hints.say_job_stopped(summary, folder, self._job, self._sweeping)

    def close(self) -> None:
        """Print the table of a sweep and leave the cluster."""
        if self._progress is not None:
            self._progress.stop()
        self._places.close()
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
