"""From what Hydra composed to a job, and what is said of it before it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from flexray.overrides import check_keys, chosen_name, own_keys
from flexray.resuming import Resume

if TYPE_CHECKING:
    from flexray.build import Job

log = logging.getLogger("flexray")


def typed_overrides(chosen: Any) -> list[str]:
    """Return the overrides of a job as they were typed: interpolations in them are the configuration's, not Hydra's."""
    texts: Any = OmegaConf.to_container(chosen.overrides.task, resolve=False)
    return [str(text) for text in texts]


def build_job(cfg: DictConfig, chosen: Any, resume: Resume | None) -> tuple[Job, dict[str, Any]]:
    """Build a job and say what it is; return it and its whole configuration."""
    from flexray.build import build

    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    check_keys(plain)
    whole = plain
    typed = typed_overrides(chosen)
    plain = own_keys(plain, typed)
    algo, dataset = (chosen_name(plain, chosen.runtime.choices, group, typed) for group in ("algo", "dataset"))
    job = build(plain, algo, dataset, resume.base_dir if resume else Path(chosen.runtime.cwd))
    _introduce(job)
    return job, whole


def say_what_has_no_effect(job: Job, config: Mapping[str, Any], typed: Sequence[str]) -> None:
    """Say which typed keys nothing reads, and which optimizers the theory does not cover."""
    from flexray.unread import outside_theory, unread

    for line in (*unread(config, job.algo, typed), *outside_theory(job)):
        log.info("%s", line)


def _introduce(job: Job) -> None:
    """Say whether data or speeds are made up and, unless without progress, who trains what."""
    from flexray.simulation.trace_speeds import TraceSpeeds

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
