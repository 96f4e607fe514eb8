"""From configuration to objects. Below this module there are plain arguments and frozen dataclasses only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from torch import nn

from flexray.algorithms.adaptive import FIRST, static_rates
from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm, System
from flexray.build_absence import with_absences
from flexray.build_checkpoint import Safety, build_safety
from flexray.build_clock import with_clock
from flexray.build_cluster import build_cluster
from flexray.build_dataset import build_dataset
from flexray.build_devices import with_devices
from flexray.build_network import bandwidths, wires
from flexray.build_speeds import build_speeds
from flexray.cluster import ClusterPlan
from flexray.components import component, make
from flexray.data.base import Dataset, Outline, SavedModel
from flexray.data.outlines import check_outline
from flexray.errors import ConfigError, near_match
from flexray.experiment import Experiment, LearningRateDecay, Limits, Target
from flexray.limits import check_limits
from flexray.metrics import lower_is_better
from flexray.models import OFFERS
from flexray.optimizers import LocalOptimizer
from flexray.participants import LABELS_AT, SERVER, SERVER_INDEX, ParticipantSpec, Shared, blame
from flexray.tasks import Task
from flexray.values import not_negative, number, one_of, participant, positive, resolve, shown, whole, yes_or_no

Config = Mapping[str, Any]
"""The composed configuration as plain dictionaries and lists."""

MOST_THREADS = 1024
OVERRIDES = ("model", "optimizer", "clip_norm", "lr_decay", "resources", "labels")


@dataclass(frozen=True)
class Job:
    """A run and where it runs.

    Args:
        algo: Name of the chosen algorithm.
        dataset: Name of the chosen dataset.
        experiment: What determines its numbers.
        cluster: What it asks of the cluster.
        timeline_rounds: Rounds that ``timeline.json`` shows.
        progress: Show progress.
        safety: How it is saved.
        smoothness: max(L, L_k) of each participant, for a warning where the theory's limit is exceeded.
    """

    algo: str
    dataset: str
    experiment: Experiment
    cluster: ClusterPlan
    timeline_rounds: int = 1000
    progress: bool = True
    smoothness: tuple[float, ...] | None = None
    safety: Safety = field(default_factory=Safety)


def build(config: Config, algo: str, dataset: str, base_dir: Path, saved: SavedModel | None = None) -> Job:
    """Build a run.

    Args:
        config: The composed configuration.
        algo: Name of the chosen algorithm.
        dataset: Name of the chosen dataset.
        base_dir: Folder that relative paths start from.
        saved: The model that is to predict; the data then needs no labels.

    Raises:
        flexray.errors.UserError: Something in the configuration or the data is wrong.
    """
    data = build_dataset(config, base_dir)
    if saved is not None:
        data = data.for_prediction(saved)
    with blame("dataset", "reading its outline"):
        outline = check_outline(data.outline(), data, predicts=saved is not None)
    names = (*outline.parties, SERVER)
    overrides = _overrides(config, names)
    frozen = _frozen(config["frozen"], names)
    participants = _participants(config, names, overrides, frozen, base_dir)
    shared = replace(_shared(config, data, outline, participants[-1]), predicts=saved is not None)
    timeout, speeds = build_speeds(config, dataset, names, base_dir)
    system = _system(config, participants, timeout, speeds.base_units)
    experiment = Experiment(
        shared=shared,
        parties=participants[:-1],
        algorithm=_algorithm(config, system),
        speeds=speeds,
        decays=tuple(_decay(config, overrides.get(k, {}), name) for k, name in enumerate(names)),
        limits=_limits(config),
        target=_target(config, outline),
        eval_every=_optional_whole(config, "eval_every"),
        eval_train=config["eval_train"],
        bandwidths=bandwidths(config, outline.parties),
    )
    shared.batches()  # refuses a bad batch size
    experiment = with_absences(config, with_clock(config, experiment, algo, base_dir))
    check_limits(experiment)
    cluster = build_cluster(config, dataset, names, overrides)
    experiment = with_devices(config, experiment, cluster)
    rounds = whole("timeline_rounds", config["timeline_rounds"], low=0)
    smoothness = config["smoothness"]
    limits = None if smoothness is None else resolve("smoothness", smoothness, names, positive)
    turns = len(outline.parties) if isinstance(experiment.algorithm, EventAlgorithm) else 1
    safety = build_safety(config, turns, base_dir)
    return Job(algo, dataset, experiment, cluster, rounds, config["progress"], limits, safety)


def _shared(config: Config, data: Dataset, outline: Outline, server: ParticipantSpec) -> Shared:
    dtype = config["dtype"]
    if dtype not in ("float32", "float64"):
        raise ConfigError(f"dtype: expected float32 or float64, got {dtype!r}")
    return Shared(
        dataset=data,
        outline=outline,
        server=server,
        seed=whole("seed", config["seed"], low=0, high=2**63 - 1),
        batch_size=whole("dataset.batch_size", config["dataset"].get("batch_size"), low=1),
        replacement=yes_or_no("dataset.replacement", config["dataset"].get("replacement", False)),
        drop_last=yes_or_no("dataset.drop_last", config["dataset"].get("drop_last", False)),
        embedding_width=whole("embedding", config["embedding"], low=1),
        dtype=cast(Literal["float32", "float64"], dtype),
        threads=whole("party_threads", config["party_threads"], low=1, high=MOST_THREADS),
        wires=wires(config, outline.parties),
        labels_at=one_of("labels_at", config["labels_at"], LABELS_AT),
    )


def _participants(
    config: Config, names: Sequence[str], overrides: Mapping[int, Config], frozen: Sequence[bool], base_dir: Path
) -> tuple[ParticipantSpec, ...]:
    """Return the parties and, last, the server, each with its own overrides from ``parties``."""
    specs = []
    for place_, name in enumerate(names):
        is_server = name == SERVER
        own = overrides.get(place_, {})
        keys = {key: f"parties.{name}.{key}" for key in own}
        role = "server" if is_server else "model"
        clip = own.get("clip_norm", config["clip_norm"])
        model = _with_weights(_merged(config[role], own.get("model")), base_dir)
        specs.append(
            ParticipantSpec(
                name=name,
                index=SERVER_INDEX if is_server else place_ + 1,
                model=component(keys.get("model", role), model, nn.Module, OFFERS),
                optimizer=_optimizer(
                    keys.get("optimizer", "optimizer"), _merged(config["optimizer"], own.get("optimizer"))
                ),
                clip_norm=None if clip is None else positive(keys.get("clip_norm", "clip_norm"), clip),
                frozen=frozen[place_],
            )
        )
    return tuple(specs)


def _overrides(config: Config, names: Sequence[str]) -> dict[int, Config]:
    """Return the keys of single participants, by place."""
    result: dict[int, Config] = {}
    for who, node in config["parties"].items():
        place_ = participant("parties", who, names)
        if not isinstance(node, Mapping):
            raise ConfigError(f"parties.{who}: expected keys such as {', '.join(OVERRIDES)}, got {shown(node)}")
        for key in node:
            if key not in OVERRIDES:
                raise ConfigError(f"parties.{who}.{key}: unknown key{near_match(str(key), OVERRIDES)}")
        if place_ in result:
            raise ConfigError(f"parties.{who}: '{names[place_]}' is given twice, by name and by number")
        if not isinstance(node.get("resources") or {}, Mapping):
            raise ConfigError(f"parties.{who}.resources: expected {{name:amount}}, got {node['resources']!r}")
        result[place_] = node
    return result


def _merged(default: Any, own: Any) -> Any:
    """Return the default node with its own keys replaced; a node with another ``_target_`` replaces it whole."""
    if own is None:
        return default
    if not isinstance(own, Mapping) or "_target_" in own or not isinstance(default, Mapping):
        return own
    return {**default, **own}


def _with_weights(node: Any, base_dir: Path) -> Any:
    """Return a model's node with the full path of its file of weights, if it has one."""
    weights = node.get("weights") if isinstance(node, Mapping) else None
    if isinstance(weights, str) and (file := base_dir / Path(weights).expanduser()).is_file():
        return {**node, "weights": os.fspath(file)}
    return node


def _optimizer(key: str, node: Any) -> LocalOptimizer:
    optimizer: LocalOptimizer = make(key, node, LocalOptimizer)
    return optimizer


def _system(
    config: Config, participants: Sequence[ParticipantSpec], timeout: float, base_units: tuple[float, ...]
) -> System:
    names = tuple(p.name for p in participants)
    parties = names[:-1]
    system = System(
        names=names,
        base_units=base_units,
        timeout_units=timeout,
        party_comm_units=resolve("network.t_comm", config["network"]["t_comm"], parties, not_negative),
        lr=resolve("lr", config["lr"], names, positive),
        base_rates=resolve("adaptive.A", config["adaptive"]["A"], names, positive),
        optimizers=tuple(p.optimizer for p in participants),
        frozen=tuple(p.frozen for p in participants),
    )
    rates = one_of("rates", config["rates"], ("fixed", "static"))
    one_of("adaptive.first", config["adaptive"]["first"], FIRST)
    return replace(system, lr=static_rates(system)) if rates == "static" else system


def _frozen(value: Any, names: tuple[str, ...]) -> tuple[bool, ...]:
    """Return who is frozen: ``parties``, or a list of participants."""
    if value == "parties":
        return (*(True for _ in names[:-1]), False)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Sequence):
        raise ConfigError(f"frozen: expected 'parties' or a list of participants, got {shown(value)}")
    places = {participant("frozen", who, names) for who in value}
    if len(places) == len(names):
        raise ConfigError("frozen: everybody is; expected at least one participant that computes")
    return tuple(k in places for k in range(len(names)))


def _algorithm(config: Config, system: System) -> RoundAlgorithm | EventAlgorithm:
    algorithm: RoundAlgorithm | EventAlgorithm = make("algo", config["algo"], (RoundAlgorithm, EventAlgorithm), system)
    return algorithm


def _decay(config: Config, own: Config, name: str) -> LearningRateDecay:
    """Return a participant's schedule: its own keys over those of all."""
    given = own.get("lr_decay") or {}
    key = f"parties.{name}.lr_decay" if given else "lr_decay"
    node = _merged(config["lr_decay"], given)
    if not isinstance(node, Mapping) or set(node) != {"milestones", "factor"}:
        raise ConfigError(f"{key}: expected the keys milestones and factor, got {given!r}")
    if not isinstance(node["milestones"], Sequence) or isinstance(node["milestones"], str):
        raise ConfigError(f"{key}.milestones: expected a list of local iterations, got {node['milestones']!r}")
    milestones = tuple(whole(f"{key}.milestones", m, low=1) for m in node["milestones"])
    return LearningRateDecay(milestones, number(f"{key}.factor", node["factor"], above=0, high=1))


def _limits(config: Config) -> Limits:
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


def _target(config: Config, outline: Outline) -> Target:
    default = _default_metric(outline.task)
    metric = config["target_metric"] or default
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


def _default_metric(task: Task) -> str:
    return f"test_{task.metrics[1]}"
