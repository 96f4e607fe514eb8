"""Remarks on a configuration at the start: keys without effect, and optimizers that the theory does not cover.

Lines of the log only, since one command may compare algorithms or speeds that read different keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flexray.config.typed import choices_of
from flexray.core.neutral import is_under

if TYPE_CHECKING:
    from flexray.config.job import Job

FEW = 6
Config = Mapping[str, Any]


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
        few = f"{', '.join(owners[:FEW])}{', ...' if len(owners) > FEW else ''}"
        yield f"optimizer: {optimizer} is outside of the theory (in_theory=False), so w_bar counts as 1 for {few}"


def _fixed_rates(config: Config, algo: str) -> str | None:
    if algo == "adaptive":
        return "algo=adaptive"
    return "rates=static" if config["rates"] == "static" else None


def _adaptive(config: Config, algo: str) -> str | None:
    return None if algo == "adaptive" or algo not in choices_of("algo") else f"algo={algo}"


def _base_rates(config: Config, algo: str) -> str | None:
    return None if config["rates"] == "static" else _adaptive(config, algo)


def _timeout(config: Config, algo: str) -> str | None:
    misses = config["absence"]["probability"] or config["absence"]["above"] is not None
    reads = config["rates"] == "static" or (algo == "pbcd" and misses)  # a round without anybody lasts that long
    return f"algo={algo}" if algo in ("vafl", "pbcd") and not reads else None


def _factor(config: Config, algo: str) -> str | None:
    own = any(isinstance(node, Mapping) and "lr_decay" in node for node in config["parties"].values())
    return None if own or config["lr_decay"]["milestones"] else "lr_decay.milestones=[]"


def _sample_units(config: Config, algo: str) -> str | None:
    advance = config["speeds"]["advance"]
    return f"speeds.advance={advance}" if config["speeds"]["kind"] == "trace" and advance != "time" else None


def _kind(group: str, *kinds: str) -> Callable[[Config, str], str | None]:
    """Return a condition: one of these kinds is chosen."""
    return lambda config, algo: f"{group}={config[group]['kind']}" if config[group]["kind"] in kinds else None


RULES = (
    Rule(("lr",), _fixed_rates, "adaptive.A"),
    Rule(("rates",), lambda config, algo: "algo=adaptive" if algo == "adaptive" else None),
    Rule(("adaptive.A",), _base_rates, "algo=adaptive or rates=static"),
    Rule(("adaptive.weighted", "adaptive.first"), _adaptive, "algo=adaptive"),
    Rule(("timeout",), _timeout),
    Rule(("lr_decay.factor",), _factor),
    Rule(
        ("speeds.path", "speeds.machines", "speeds.advance", "speeds.sample_units", "speeds.at_end"),
        _kind("speeds", "paper", "uniform", "google_mean"),
        "speeds=trace",
    ),
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
