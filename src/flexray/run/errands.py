"""A job of a sweep on another machine: it is sent with what its run folder holds, and comes back with what it left.

Machines need not share a disk. There the job runs in a temporary folder, in one process; at home its run folder is as
if it had run there, but for what a job writes elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from hydra.core.utils import run_job, setup_globals
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from flexray.core.errors import FlexrayError
from flexray.core.runfolder import HYDRA_YAML, LOG_FILE
from flexray.engine.hosts.jobs import Jobs, Pool
from flexray.run.interrupts import Interrupts
from flexray.run.save.parcel import Parcel, pack, renamed, unpack
from flexray.run.save.scratch import scratch_folder

if TYPE_CHECKING:
    from flexray.run.session import Session

Said: TypeAlias = list[tuple[int, str]]
"""Levels and texts of remarks."""
T = TypeVar("T")
R = TypeVar("R")
TEXTS = (HYDRA_YAML, LOG_FILE)
"""Files of a run folder that name it."""

log = logging.getLogger("flexray")


@dataclass(frozen=True)
class Errand:
    """A job on its way out.

    Args:
        session: The command's jobs; the copy runs this one.
        config: The composed configuration, Hydra's part included.
        callbacks: Hydra's.
        sweep: The sweep's folder at home.
        name: The run folder's name in it.
        parcel: What the run folder holds at home.
    """

    session: Session
    config: DictConfig
    callbacks: Any
    sweep: Path
    name: str
    parcel: Parcel


@dataclass(frozen=True)
class Report:
    """A job on its way home.

    Args:
        exit_status: As of a command.
        summary: What came out; None if it failed.
        said: Levels and texts of warnings and errors.
        parcel: What its run folder holds.
    """

    exit_status: int
    summary: dict[str, Any] | None
    said: Said
    parcel: Parcel


@dataclass(frozen=True)
class Away:
    """A run folder in a temporary place of this machine.

    Args:
        here: What stands for the sweep's folder.
        sweep: The sweep's folder at home.
        name: The run folder's name in it.
    """

    here: Path
    sweep: Path
    name: str

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.here / self.name

    def packed(self) -> Parcel:
        """Return what the run folder holds; its texts name the folder at home."""
        return renamed(pack(self.folder), str(self.here), str(self.sweep), TEXTS)

    def at_home(self, said: Said, interrupted: bool) -> Said:
        """Return texts in which folders are those at home; of a job that was interrupted the errors only."""
        least = logging.ERROR if interrupted else logging.NOTSET
        return [(level, text.replace(str(self.here), str(self.sweep))) for level, text in said if level >= least]


@contextmanager
def away(parcel: Parcel, sweep: Path, name: str) -> Iterator[Away]:
    """Lay out a run folder in a temporary place, for the block."""
    with scratch_folder() as home:
        place = Away(home / "sweep", sweep, name)
        unpack(parcel, place.folder)
        yield place


def run_errand(errand: Errand) -> Report:
    """Run a job in a temporary folder of this machine.

    Raises:
        KeyboardInterrupt: It was interrupted before its first round.
    """
    setup_globals()
    config, session = errand.config, errand.session
    with away(errand.parcel, errand.sweep, errand.name) as place, collected() as said:
        with open_dict(config):
            config.hydra.sweep.dir, config.hydra.sweep.subdir = str(place.here), errand.name
        mailbox = session.move_to(place.here.with_name("letters"))
        context = HydraContext(cast(Any, None), errand.callbacks)
        with suppress(KeyboardInterrupt):
            run_job(session.run_job, config, "hydra.sweep.dir", "hydra.sweep.subdir", context)
        letters = mailbox.take()
        if session.interrupted and not any(summary for _, summary in letters):
            raise KeyboardInterrupt
        ((exit_status, summary),) = letters
        return Report(exit_status, summary, place.at_home(said, session.interrupted), place.packed())


def run_away(
    pool: Pool, work: Callable[[T], R], items: Mapping[int, T]
) -> Generator[tuple[int, R | FlexrayError], None, None]:
    """Yield number and result of jobs that run side by side, see :class:`flexray.engine.hosts.jobs.Jobs`.

    It is to be closed, which ends what runs.

    Raises:
        flexray.core.errors.ResourceError: The pool has no place for them.
        KeyboardInterrupt: A signal came. Jobs that were running have ended after their round and have been yielded,
            but not after a second signal.
    """
    if not items:
        return
    with Interrupts() as interrupts, pool:
        jobs = Jobs(pool, work, items)
        interrupts.arm(jobs.stop)
        yield from jobs.run()
    if interrupts.seen:
        raise KeyboardInterrupt


@contextmanager
def collected() -> Iterator[Said]:
    """Collect levels and texts of the warnings and errors that are logged within the block."""
    said: Said = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append((record.levelno, record.getMessage()))

    collector = Collector(logging.WARNING)
    log.addHandler(collector)
    try:
        yield said
    finally:
        log.removeHandler(collector)
