"""Remarks of a command on its jobs: before they run, while a sweep runs, and how to go on with what was stopped."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexray.config.trust import check_overrides
from flexray.config.typed import choices_of, key_of, quoted
from flexray.core.checks import listed
from flexray.core.errors import ConfigError
from flexray.core.neutral import is_under
from flexray.run.resume import recorded_overrides

if TYPE_CHECKING:
    from flexray.config.job import Job
    from flexray.run.mailbox import Mailbox

STOPPED = ("interrupted", "failed")
"""How a run ended that can go on."""
Config = Mapping[str, Any]
TYPED_AGAIN = ("cluster=ray", "cluster.address=", "checkpoint.dir=", "dataset.cache=", "logger=mlflow")

WITHOUT_TIMEOUT = ("vafl", "pbcd", "split", "fedbcd", "cvfl", "efvfl", "laser", "fedonce", "less", "tdcd", "bsvfl")

MOST_LISTED = 12
"""Parties of which the start shows the columns that were dealt to them; ``summary.json`` has all."""

log = logging.getLogger("flexray")


def introduce(job: Job) -> None:
    """Warn of data and speeds that are made up; unless without progress, name algorithm, data and parties."""
    from flexray.traces.speeds import followed

    x = job.experiment
    outline = x.shared.outline
    traced = [(followed(x.speeds), "machines"), (followed(x.network and x.network.scale), "links")]
    traces = [(trace, what) for trace, what in traced if trace is not None]
    if outline.source == "synthetic":
        log.warning("the data is SYNTHETIC: no figure of this run says anything about real data")
    for trace, _ in traces:
        if trace.synthetic:
            log.warning("the trace %s is SYNTHETIC: generated, not measured", trace.source)
    if job.progress:
        many = f"{len(outline.parties)} {'party' if len(outline.parties) == 1 else 'parties'}"
        what = f"{job.algo} on {job.dataset} ({outline.source})"
        log.info("%s: %s %s; cluster=%s", what, many, listed(outline.parties, 6), job.cluster.kind)
        if x.algorithm.system.labels_only:
            log.info("%s holds the labels, and has no features and no model", x.shared.labels_at)
        for name, columns in [*outline.columns.items()][:MOST_LISTED]:
            log.info("columns of %s: %s", name, listed(columns, 12))
        for trace, things in traces:
            if trace.machines:
                runs_as = [f"{name} as {machine}" for name, machine in trace.machines.items()]
                log.info("%s of %s: %s", things, trace.source, listed(runs_as, 8))


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
    wall = summary["time_unit"] == "seconds" and not summary.get("predicted")
    how = "; a run on clock=wall cannot be resumed" if wall else f"; go on with: {how_to_go_on(folder)}"
    log.warning("%s%s%s", job, summary["status"], "" if sweeping else how)


def say_job_ended(summary: dict[str, Any], folder: Path, job: str) -> None:
    """Say how a job of a sweep ended that ran in another process."""
    log.info("%s%s in %.1f s, %s", job, summary["status"], summary["wall_s"], folder)


def job_name(hydra: Any) -> str:
    """Return how lines begin that are on a job of a sweep, from Hydra's own configuration of it."""
    return f"job {hydra.job.num} ({hydra.job.override_dirname}): "


def say_sweep_stopped(arguments: Sequence[str], folder: str) -> None:
    """Say which command runs what is missing of the sweep in a folder."""
    log.warning("go on with: python -m flexray.run %s", shlex.join(sweep_again(arguments, folder)))


def sweep_again(arguments: Sequence[str], folder: str) -> list[str]:
    """Return the arguments with which the missing jobs of the sweep in a folder run."""
    place = folder if re.fullmatch(r"[\w./-]+", folder) else quoted(folder)
    same = [a for a in arguments if key_of(a) not in ("resume", "hydra.sweep.dir")]
    return [*same, "resume=auto", f"hydra.sweep.dir={place}"]


def say_how_far(mailbox: Mailbox, total: int | None) -> None:
    """Say how many of a sweep's jobs in several processes have ended, and how long the others will take."""
    from flexray.run.watch.sweep import left

    done, took_s = mailbox.progress()
    log.info("%d %sjobs done%s", done, "" if total is None else f"of {total} ", left(done, total, took_s))


@dataclass(frozen=True)
class Rule:
    """When keys are not read.

    Args:
        keys: The keys, and those below them.
        unless_read: Returns the choice that does not read them; None if they are read.
        would: The choice that would read them, if there is one.
    """

    keys: tuple[str, ...]
    unless_read: Callable[[Config, str], str | None]
    would: str = ""


def unread(config: Config, algo: str, typed: Iterable[str]) -> Iterator[str]:
    """Yield a line for every key of ``typed`` that has no effect.

    An algorithm of the user's own counts as reading all keys of algorithms, and ``speeds=replay`` all keys.
    """
    if config["speeds"]["kind"] == "replay":
        return
    for key in typed:
        for rule in RULES:
            if is_under(key, rule.keys) and (chosen := rule.unless_read(config, algo)):
                yield f"{key}: not used with {chosen}{f'; {rule.would} would' if rule.would else ''}"
                break


def outside_theory(job: Job) -> Iterator[str]:
    """Yield a line for every kind of optimizer whose weights are not exact."""
    names: dict[str, list[str]] = {}
    for spec in (*job.experiment.parties, job.experiment.shared.server):
        if not spec.optimizer.in_theory:
            names.setdefault(str(spec.optimizer), []).append(spec.name)
    for optimizer, owners in names.items():
        whom = listed(owners, 6)
        yield f"optimizer: {optimizer} is outside of the theory (in_theory=False), so w_bar counts as 1 for {whom}"


def _fixed_rates(config: Config, algo: str) -> str | None:
    if algo == "adaptive":
        return "algo=adaptive"
    return "rates=static" if config["rates"] == "static" else None


def _adaptive(config: Config, algo: str) -> str | None:
    return None if algo == "adaptive" or algo not in choices_of("algo") else f"algo={algo}"


def _base_rates(config: Config, algo: str) -> str | None:
    return None if config["rates"] == "static" or config["timeout"] == "auto" else _adaptive(config, algo)


def _timeout(config: Config, algo: str) -> str | None:
    misses = config["absence"]["probability"] or config["absence"]["above"] is not None
    reads = config["rates"] == "static" or (algo != "vafl" and misses)  # a round without anybody lasts that long
    return f"algo={algo}" if algo in WITHOUT_TIMEOUT and not reads else None


def _factor(config: Config, algo: str) -> str | None:
    own = any(isinstance(node, Mapping) and "lr_decay" in node for node in config["parties"].values())
    return None if own or config["lr_decay"]["milestones"] else "lr_decay.milestones=[]"


def _lossless(config: Config, algo: str) -> str | None:
    links = config["network"]
    plain = links["top_k"] == 1 and not any(links[key] for key in ("bits", "clip", "noise"))
    return "network.top_k=1" if plain else None


def _cut(kind: str) -> Callable[[Config, str], str | None]:
    """Return a condition: columns are not dealt out by ``kind``."""

    def chosen(config: Config, algo: str) -> str | None:
        how = config["dataset"].get("cut", kind)
        return None if how == kind else f"dataset.cut={how}"

    return chosen


def _sample_units(config: Config, algo: str) -> str | None:
    advance = config["speeds"]["advance"]
    return f"speeds.advance={advance}" if config["speeds"]["kind"] == "trace" and advance != "time" else None


def _kind(group: str, *kinds: str) -> Callable[[Config, str], str | None]:
    """Return a condition: one of these kinds is chosen."""
    return lambda config, algo: f"{group}={config[group]['kind']}" if config[group]["kind"] in kinds else None


RULES = (
    Rule(
        (
            "target", "target_metric", "eval_every", "eval_every_units", "eval_as_sent", "eval_train", "stack",
            "device", "precision", "clip_norm", "checkpoint", "max_failures", "stall_timeout",
        ),
        lambda config, algo: None if config["learn"] else "learn=false",
    ),
    Rule(
        ("cluster",),
        lambda config, algo: None if config["learn"] or config["cluster"]["kind"] == "inline" else "learn=false",
    ),
    Rule(("lr",), _fixed_rates, "adaptive.A"),
    Rule(("rates",), lambda config, algo: "algo=adaptive" if algo == "adaptive" else None),
    Rule(("adaptive.A",), _base_rates, "algo=adaptive or rates=static"),
    Rule(("adaptive.weighted", "adaptive.first"), _adaptive, "algo=adaptive"),
    Rule(("timeout",), _timeout),
    Rule(("lr_decay.factor",), _factor),
    Rule(("dataset.alpha",), _cut("importance"), "dataset.cut=importance"),
    Rule(("dataset.beta",), _cut("correlation"), "dataset.cut=correlation"),
    Rule(
        ("costs.seconds_per_unit",),
        lambda config, algo: "costs.price_per_hour=null" if config["costs"]["price_per_hour"] is None else None,
        "costs.price_per_hour",
    ),
    Rule(("network.error_feedback",), _lossless, "network.top_k or network.bits"),
    Rule(
        ("speeds.path", "speeds.machines", "speeds.advance", "speeds.sample_units", "speeds.at_end"),
        _kind("speeds", "paper", "uniform", "google_mean"),
        "speeds=trace",
    ),
    Rule(("speeds.machines", "speeds.advance", "speeds.sample_units", "speeds.at_end"), _kind("speeds", "measured")),
    Rule(("speeds.sample_units",), _sample_units, "speeds.advance=time"),
    Rule(("logger.project",), _kind("logger", "none", "tensorboard"), "logger=mlflow or wandb"),
    Rule(("logger.uri",), _kind("logger", "none", "tensorboard", "wandb"), "logger=mlflow"),
    Rule(("cluster.address",), _kind("cluster", "inline", "local", "packed"), "cluster=ray"),
    Rule(("cluster.num_cpus",), _kind("cluster", "inline", "ray"), "cluster=local or packed"),
    Rule(
        (
            "cluster.cpus_per_party", "cluster.cpus_server", "cluster.cpus_driver", "cluster.resources",
            "cluster.parties_per_actor", "cluster.strategy", "cluster.labels", "cluster.labels_driver", "cluster.wait",
            "max_failures", "stall_timeout", "checkpoint.recover_every",
        ),
        _kind("cluster", "inline"),
    ),
    Rule(("checkpoint", "max_failures"), _kind("clock", "wall"), "clock=virtual"),
)  # fmt: skip
