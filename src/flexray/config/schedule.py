"""When a run ends, when it is evaluated, what it aims at, and how learning rates decay: from keys to plain objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from flexray.core.checks import number, one_of, positive, whole
from flexray.core.errors import ConfigError
from flexray.core.scores import lower_is_better
from flexray.data.base import Outline
from flexray.engine.driver.experiment import Evaluations, LearningRateDecay, Limits, Target

DECAY_BY: tuple[Literal["iterations", "epochs"], ...] = ("iterations", "epochs")

Config = Mapping[str, Any]


def build_decay(config: Config, own: Config, name: str) -> LearningRateDecay:
    """Return a participant's schedule: its own keys over those of all."""
    given = own.get("lr_decay") or {}
    key = f"parties.{name}.lr_decay" if given else "lr_decay"
    node = {**config["lr_decay"], **given} if isinstance(given, Mapping) else given
    if not isinstance(node, Mapping) or set(node) != {"milestones", "factor", "by"}:
        raise ConfigError(f"{key}: expected the keys milestones, factor and by, got {given!r}")
    if not isinstance(node["milestones"], Sequence) or isinstance(node["milestones"], str):
        raise ConfigError(f"{key}.milestones: expected a list of whole numbers, got {node['milestones']!r}")
    milestones = tuple(whole(f"{key}.milestones", m, low=1) for m in node["milestones"])
    return LearningRateDecay(
        milestones, number(f"{key}.factor", node["factor"], above=0, high=1), one_of(f"{key}.by", node["by"], DECAY_BY)
    )


def build_evaluations(config: Config) -> Evaluations:
    """Return when a run is evaluated."""
    every_units = config["eval_every_units"]
    if every_units is not None and config["eval_every"] is not None:
        raise ConfigError("eval_every_units: given together with eval_every; expected one of them")
    return Evaluations(
        every=_optional_whole(config, "eval_every"),
        every_units=None if every_units is None else positive("eval_every_units", every_units),
        train=config["eval_train"],
        as_sent=config["eval_as_sent"],
    )


def build_limits(config: Config) -> Limits:
    """Return when a run ends, which at least one key says."""
    epochs, max_time = config["epochs"], config["max_time"]
    limits = Limits(
        rounds=_optional_whole(config, "rounds"),
        epochs=None if epochs is None else positive("epochs", epochs),
        max_time=None if max_time is None else positive("max_time", max_time),
    )
    if limits == Limits():
        raise ConfigError("rounds: none of rounds, epochs and max_time is given; expected at least one")
    return limits


def _optional_whole(config: Config, key: str) -> int | None:
    return None if config[key] is None else whole(key, config[key], low=1)


def build_target(config: Config, outline: Outline) -> Target:
    """Return the value of a metric that a run aims at."""
    metric = config["target_metric"] or f"test_{outline.task.metrics[1]}"
    splits = ["test", *(["val"] if outline.sizes["val"] else []), *(["train"] if config["eval_train"] else [])]
    known = [f"{split}_{name}" for split in splits for name in outline.task.metrics]
    if metric not in known:
        few = "; there is no top5 of five classes or fewer" if metric.endswith("_top5") else ""
        raise ConfigError(f"target_metric: unknown metric '{metric}'; expected one of: {', '.join(known)}{few}")
    value = None if config["target"] is None else number("target", config["target"])
    least = -1 if metric.endswith("_corr") else 0
    if value is not None and not least <= value <= 1 and not lower_is_better(metric):
        expected = "at most 1, which is all of" if value > 1 else f"at least {least}, the least of"
        raise ConfigError(f"target: expected {expected} {metric}, got {value:g}")
    if config["stop_at_target"] and value is None:
        raise ConfigError("stop_at_target: there is no target to stop at; expected one, as in target=0.9")
    return Target(metric, value, config["stop_at_target"])
