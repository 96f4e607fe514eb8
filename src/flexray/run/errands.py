"""A job of a sweep on another machine: it is sent with what its run folder holds, and comes back with what it left.

Machines need not share a disk. There the job runs in a temporary folder, in one process; at home its run folder is as
if it had run there, but for what a job writes elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from flexray.core.errors import FlexrayError
from flexray.core.runfolder import HYDRA_YAML, LOG_FILE
from flexray.engine.hosts.jobs import Jobs, Pool
from flexray.run.interrupts import Interrupts
from flexray.run.save.parcel import Parcel, pack, renamed, unpack
from flexray.run.save.scratch import scratch_folder

Said: TypeAlias = list[tuple[int, str]]
"""Levels and texts of remarks."""
R = TypeVar("R")
TEXTS = (HYDRA_YAML, LOG_FILE)
"""Files of a run folder that name it."""

log = logging.getLogger("flexray")


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


@dataclass(frozen=True)
class Errand(Generic[R]):
    """A job on its way out.

    Args:
        work: Runs it where it has come to; returns what came out, and whether it was interrupted after a round.
        sweep: The sweep's folder at home.
        name: The run folder's name in it.
        parcel: What the run folder holds at home.
    """

    work: Callable[[Away], tuple[R, bool]]
    sweep: Path
    name: str
    parcel: Parcel


@dataclass(frozen=True)
class Report(Generic[R]):
    """A job on its way home.

    Args:
        result: What came out.
        interrupted: Whether it ended before its end.
        said: Levels and texts of warnings and errors.
        parcel: What its run folder holds.
    """

    result: R
    interrupted: bool
    said: Said
    parcel: Parcel


def run_errand(errand: Errand[R]) -> Report[R]:
    """Run a job in a temporary folder of this machine.

    Raises:
        KeyboardInterrupt: It was interrupted before its first round.
    """
    with scratch_folder() as home, collected() as said:
        place = Away(home / "sweep", errand.sweep, errand.name)
        unpack(errand.parcel, place.folder)
        result, interrupted = errand.work(place)
        return Report(result, interrupted, place.at_home(said, interrupted), place.packed())


def bring_home(found: Report[R] | FlexrayError, errand: Errand[R]) -> Report[R]:
    """Unpack what a job left into its run folder, or raise why there is nothing.

    Raises:
        flexray.core.errors.FlexrayError: It was lost, or what it left cannot be written.
    """
    if isinstance(found, FlexrayError):
        raise found
    unpack(found.parcel, errand.sweep / errand.name, errand.parcel)
    return found


def run_away(
    pool: Pool, errands: Mapping[int, Errand[R]]
) -> Generator[tuple[int, Report[R] | FlexrayError], None, None]:
    """Yield number and report of jobs that run side by side, see :class:`flexray.engine.hosts.jobs.Jobs`.

    It is to be closed, which ends what runs.

    Raises:
        flexray.core.errors.ResourceError: The pool has no place for them.
        KeyboardInterrupt: A signal came. Jobs that were running have ended after their round and have been yielded,
            but not after a second signal.
    """
    if not errands:
        return
    with Interrupts() as interrupts, pool:
        jobs = Jobs(pool, run_errand, errands)
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
