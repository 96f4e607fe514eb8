"""``hydra/launcher=ray``: the jobs of a sweep on the CPUs of a Ray cluster's nodes, a process for each."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, configure_log, run_job, setup_globals
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from flexray.config.compose import as_json
from flexray.config.explain import one_line
from flexray.core.checks import not_negative, positive
from flexray.core.errors import ConfigError, FlexrayError, RunFolderError
from flexray.core.runfolder import check_files
from flexray.run import hints
from flexray.run.errands import Away, Errand, Report, bring_home, run_away
from flexray.run.places import open_pool
from flexray.run.resume import AUTO, completed_summary, settled
from flexray.run.save.parcel import pack

if TYPE_CHECKING:
    from flexray.run.session import Session

Outcome: TypeAlias = tuple[int, dict[str, Any] | None]
"""Exit status of a job, as of a command, and its summary; None if it failed."""

log = logging.getLogger("flexray")


@dataclass
class RayLauncherConfig:
    """Keys of ``hydra.launcher``: which cluster, and what each job gets there.

    ``address``: ``auto``, ``HOST:PORT`` of a running cluster, or ``local`` to start Ray on this machine.
    """

    _target_: str = "hydra_plugins.flexray_launcher.RayLauncher"
    address: str = "${cluster.address}"
    num_cpus: float = 1.0
    num_gpus: float = 0.0


def register_launcher() -> None:
    """Register ``hydra/launcher=ray`` for flexray's own command."""
    Plugins.instance()  # reads what others register, by this name, too
    ConfigStore.instance().store(group="hydra/launcher", name="ray", node=RayLauncherConfig, provider="flexray")


@dataclass
class SweepJob:
    """A job as the command composed it.

    Args:
        config: Its configuration, Hydra's part included.
    """

    config: DictConfig

    def __post_init__(self) -> None:
        hydra = self.config.hydra
        self.number: int = hydra.job.num
        self.label = hints.job_name(hydra)
        self.sweep, self.name = Path(str(hydra.sweep.dir)).absolute(), str(hydra.sweep.subdir)
        self.folder = self.sweep / self.name

    def check(self) -> None:
        """Refuse a job that cannot run in one process of another machine.

        Raises:
            ConfigError: It names the key.
        """
        kind, logger = self.config.cluster.kind, self.config.logger
        if kind != "inline":
            raise ConfigError(f"cluster: hydra/launcher=ray runs each job in one process; expected inline, got {kind}")
        if logger.kind == "mlflow" and logger.uri is None:
            raise ConfigError("logger.uri: jobs run on other machines; expected the address of a server for mlflow")

    def errand(self, session: Session, callbacks: Any) -> Errand[Outcome]:
        """Return the job with what its run folder holds."""
        check_files(self.folder)
        return Errand(partial(run_there, session, self.config, callbacks), self.sweep, self.name, pack(self.folder))


def run_there(session: Session, config: DictConfig, callbacks: Any, place: Away) -> tuple[Outcome, bool]:
    """Run a job where it has come to; ``session`` is this machine's copy of the command's jobs.

    Raises:
        KeyboardInterrupt: It was interrupted before its first round.
    """
    setup_globals()
    with open_dict(config):
        config.hydra.sweep.dir, config.hydra.sweep.subdir = str(place.here), place.name
    mailbox = session.move_to(place.here.with_name("letters"))
    with suppress(KeyboardInterrupt):
        context = HydraContext(cast(Any, None), callbacks)
        run_job(session.run_job, config, "hydra.sweep.dir", "hydra.sweep.subdir", context)
    letters = mailbox.take()
    if session.interrupted and not any(summary for _, summary in letters):
        raise KeyboardInterrupt
    (outcome,) = letters
    return outcome, session.interrupted


class SweepOnRay:
    """Jobs of a sweep on a Ray cluster; their run folders come home.

    Args:
        context: Hydra's.
        task: What runs a job, :meth:`flexray.run.session.Session.run_job`.
        config: The sweep's configuration.
        address: The cluster.
        num_cpus: CPUs of each job.
        num_gpus: GPUs of each job.
    """

    def __init__(
        self, context: HydraContext, task: Any, config: DictConfig, address: str, num_cpus: float, num_gpus: float
    ) -> None:
        self._context, self._config = context, config
        self._session: Session = task.__self__
        self._address, self._cpus, self._gpus = address, num_cpus, num_gpus

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run jobs, each where a CPU is free, and bring their run folders home.

        Raises:
            flexray.core.errors.UserError: A job cannot run there, or the cluster cannot be used.
            KeyboardInterrupt: The sweep was interrupted; what is done is at home.
        """
        setup_globals()
        self._configure_log()
        jobs = {job.number: job for job in self._composed(job_overrides, initial_job_idx)}
        for job in jobs.values():
            job.check()
        self._session.expect(self._config)
        missing = {number: job for number, job in jobs.items() if not self._is_done(job)}
        self._run(missing)
        return [JobReturn(status=JobStatus.COMPLETED) for _ in jobs]

    def _configure_log(self) -> None:
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)

    def _composed(self, job_overrides: Sequence[Sequence[str]], first: int) -> Iterator[SweepJob]:
        for number, overrides in enumerate(job_overrides, start=first):
            config = self._context.config_loader.load_sweep_config(self._config, list(overrides))
            with open_dict(config):
                config.hydra.job.id, config.hydra.job.num = str(number), number
            yield SweepJob(config)

    def _is_done(self, job: SweepJob) -> bool:
        """Whether ``resume=auto`` finds the job completed at home, or finds another there; the session then says so."""
        if job.config.get("resume") != AUTO:
            return False
        with suppress(RunFolderError):
            if completed_summary(job.folder, as_json(settled(job.config))) is None:
                return False
        run_job(self._session.run_job, job.config, "hydra.sweep.dir", "hydra.sweep.subdir", self._context)
        self._configure_log()
        return True

    def _run(self, jobs: Mapping[int, SweepJob]) -> None:
        cpus = positive("hydra.launcher.num_cpus", self._cpus)
        gpus = not_negative("hydra.launcher.num_gpus", self._gpus)
        errands = {number: job.errand(self._session, self._context.callbacks) for number, job in jobs.items()}
        pool = open_pool("hydra.launcher.address", self._address, cpus, gpus)
        with closing(run_away(pool, errands)) as ended:
            for number, found in ended:
                self._bring_home(jobs[number], errands[number], found)

    def _bring_home(self, job: SweepJob, errand: Errand[Outcome], found: Report[Outcome] | FlexrayError) -> None:
        try:
            report = bring_home(found, errand)
        except FlexrayError as error:
            log.error("flexray: %s%s", job.label, one_line(str(error)))
            self._session.receive(job.number, error.exit_status, None)
            return
        for level, text in report.said:
            if level >= logging.ERROR:
                log.log(level, "%s", text)
            else:
                log.log(level, "%s%s", job.label, text.removeprefix(job.label))
        exit_status, summary = report.result
        if summary is not None:
            hints.say_job_ended(summary, job.folder, job.label)
        self._session.receive(job.number, exit_status, summary)
