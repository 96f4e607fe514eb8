"""What a command says about jobs that have not ended: how to go on with one or with a sweep, how far a sweep is."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexray.config.overrides import key_of
from flexray.run.resume import how_to_go_on

if TYPE_CHECKING:
    from flexray.run.mailbox import Mailbox

STOPPED = ("interrupted", "failed")
"""How a run ended that can go on."""

log = logging.getLogger("flexray")


def say_job_stopped(summary: dict[str, Any], folder: Path, job: str, sweeping: bool) -> None:
    """Say that a run was stopped, and how it goes on; how a sweep does is said at its end."""
    if summary["status"] not in STOPPED:
        return
    wall = summary["time_unit"] == "seconds"
    how = "; a run on clock=wall cannot be resumed" if wall else f"; go on with: {how_to_go_on(folder)}"
    log.warning("%s%s%s", job, summary["status"], "" if sweeping else how)


def say_sweep_stopped(arguments: Sequence[str], folder: str) -> None:
    """Say which command does what is missing of a sweep in a folder."""
    log.warning("go on with: python -m flexray.run %s", shlex.join(sweep_again(arguments, folder)))


def sweep_again(arguments: Sequence[str], folder: str) -> list[str]:
    """Return the arguments of a sweep with which what is missing in its folder runs."""
    plain = re.fullmatch(r"[\w./-]+", folder) is not None
    place = folder if plain else "'" + folder.replace("\\", "\\\\").replace("'", "\\'") + "'"
    same = [a for a in arguments if key_of(a) not in ("resume", "hydra.sweep.dir")]
    return [*same, "resume=auto", f"hydra.sweep.dir={place}"]


def say_how_far(mailbox: Mailbox, arguments: Sequence[str]) -> None:
    """Say how many jobs of a sweep in several processes have ended, and how long the others will take."""
    from flexray.run.watch.sweep_progress import count_jobs, left

    total = count_jobs(arguments)
    done, took_s = mailbox.progress()
    log.info("%d %sjobs done%s", done, "" if total is None else f"of {total} ", left(done, total, took_s))
