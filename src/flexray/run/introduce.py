"""What is said of a job before it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from flexray.config.job import Job
from flexray.config.unread import outside_theory, unread
from flexray.traces.speeds import TraceSpeeds

log = logging.getLogger("flexray")


def say_what_has_no_effect(job: Job, config: Mapping[str, Any], typed: Sequence[str]) -> None:
    """Say which typed keys nothing reads, and which optimizers the theory does not cover."""
    for line in (*unread(config, job.algo, typed), *outside_theory(job)):
        log.info("%s", line)


def introduce(job: Job) -> None:
    """Say whether data or speeds are made up and, unless without progress, who trains what."""
    outline = job.experiment.shared.outline
    if outline.source == "synthetic":
        log.warning("the data is SYNTHETIC: no figure of this run says anything about real data")
    speeds = job.experiment.speeds
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
