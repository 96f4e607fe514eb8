"""Remarks of a command on its jobs: before they run, while a sweep runs, and how to go on with what was stopped."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexray.config.trust import check_overrides
from flexray.config.typed import key_of
from flexray.config.unread import outside_theory, unread
from flexray.core.errors import ConfigError
from flexray.run.resume import recorded_overrides

if TYPE_CHECKING:
    from flexray.config.job import Job
    from flexray.run.mailbox import Mailbox

STOPPED = ("interrupted", "failed")
"""How a run ended that can go on."""
TYPED_AGAIN = ("cluster=ray", "cluster.address=", "checkpoint.dir=", "dataset.cache=", "logger=mlflow")

log = logging.getLogger("flexray")


def say_what_has_no_effect(job: Job, config: Mapping[str, Any], typed: Sequence[str]) -> None:
    """Name typed keys that nothing reads, and optimizers that the theory does not cover."""
    for line in (*unread(config, job.algo, typed), *outside_theory(job)):
        log.info("%s", line)


def introduce(job: Job) -> None:
    """Warn of data and speeds that are made up; unless without progress, name algorithm, data and parties."""
    from flexray.traces.speeds import TraceSpeeds

    outline, speeds = job.experiment.shared.outline, job.experiment.speeds
    if outline.source == "synthetic":
        log.warning("the data is SYNTHETIC: no figure of this run says anything about real data")
    if isinstance(speeds, TraceSpeeds) and speeds.synthetic:
        log.warning("the trace %s is SYNTHETIC: generated, not measured", speeds.source)
    if job.progress:
        many = f"{len(outline.parties)} {'party' if len(outline.parties) == 1 else 'parties'}"
        names = ", ".join(outline.parties[:6]) + (", ..." if len(outline.parties) > 6 else "")
        what = f"{job.algo} on {job.dataset} ({outline.source})"
        log.info("%s: %s %s; cluster=%s", what, many, names, job.cluster.kind)
        if isinstance(speeds, TraceSpeeds) and speeds.machines:
            runs_as = [f"{name} as {machine}" for name, machine in speeds.machines.items()]
            log.info("machines of %s: %s%s", speeds.source, ", ".join(runs_as[:8]), ", ..." if len(runs_as) > 8 else "")


def how_to_go_on(folder: Path) -> str:
    """Return the command that continues the run of a run folder, with what has to be typed again."""
    words = [f"resume={folder}"]
    rest: list[str] = []
    for line in recorded_overrides(folder):
        (words if line.lstrip("+").startswith(TYPED_AGAIN) else rest).append(line)
    try:
        check_overrides(rest)
    except ConfigError:
        words.append("trust=true")
    return shlex.join(["python", "-m", "flexray.run", *words])


def say_job_stopped(summary: dict[str, Any], folder: Path, job: str, sweeping: bool) -> None:
    """Say that a run was stopped and, unless it is one of a sweep, how it goes on."""
    if summary["status"] not in STOPPED:
        return
    wall = summary["time_unit"] == "seconds"
    how = "; a run on clock=wall cannot be resumed" if wall else f"; go on with: {how_to_go_on(folder)}"
    log.warning("%s%s%s", job, summary["status"], "" if sweeping else how)


def say_sweep_stopped(arguments: Sequence[str], folder: str) -> None:
    """Say which command runs what is missing of the sweep in a folder."""
    log.warning("go on with: python -m flexray.run %s", shlex.join(sweep_again(arguments, folder)))


def sweep_again(arguments: Sequence[str], folder: str) -> list[str]:
    """Return the arguments with which the missing jobs of the sweep in a folder run."""
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
