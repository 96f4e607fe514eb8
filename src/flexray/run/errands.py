"""A job of a sweep on another machine: it is sent with what its run folder holds, and comes back with what it left.

Machines need not share a disk. There the job runs in a temporary folder, in one process; at home its run folder is as
if it had run there, but for what a job writes elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from hydra.core.utils import run_job, setup_globals
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from flexray.core.runfolder import HYDRA_YAML
from flexray.run.save.parcel import Parcel, pack, renamed, unpack

if TYPE_CHECKING:
    from flexray.run.session import Session

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
    said: list[tuple[int, str]]
    parcel: Parcel


def run_errand(errand: Errand) -> Report:
    """Run a job in a temporary folder of this machine.

    Raises:
        KeyboardInterrupt: It was interrupted before its first round.
    """
    setup_globals()
    with TemporaryDirectory(prefix="flexray-job-") as place, _collected() as said:
        sweep, config = Path(place, "sweep"), errand.config
        unpack(errand.parcel, sweep / errand.name)
        with open_dict(config):
            config.hydra.sweep.dir, config.hydra.sweep.subdir = str(sweep), errand.name
        mailbox = errand.session.move_to(Path(place, "letters"))
        context = HydraContext(cast(Any, None), errand.callbacks)
        with suppress(KeyboardInterrupt):
            run_job(errand.session.run_job, config, "hydra.sweep.dir", "hydra.sweep.subdir", context)
        letters = mailbox.take()
        if errand.session.interrupted and not any(summary for _, summary in letters):
            raise KeyboardInterrupt
        ((exit_status, summary),) = letters
        texts = (HYDRA_YAML, f"{config.hydra.job.name}.log")
        parcel = renamed(pack(sweep / errand.name), str(sweep), str(errand.sweep), texts)
        said = [(level, text.replace(str(sweep), str(errand.sweep))) for level, text in said]
        return Report(exit_status, summary, said, parcel)


@contextmanager
def _collected() -> Iterator[list[tuple[int, str]]]:
    """Collect the warnings and errors that are logged within the block."""
    said: list[tuple[int, str]] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append((record.levelno, record.getMessage()))

    collector = Collector(logging.WARNING)
    log.addHandler(collector)
    try:
        yield said
    finally:
        log.removeHandler(collector)
