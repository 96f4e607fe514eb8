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
from flexray.config.absence import with_absences
from flexray.config.by_participant import participant, resolve
from flexray.config.clock import with_clock
from flexray.config.components import component, make
from flexray.config.dataset import build_dataset
from flexray.config.devices import with_devices
from flexray.config.hosts import build_cluster
from flexray.config.links import bandwidths, wires
from flexray.config.saves import Safety, build_safety
from flexray.config.schedule import build_decay, build_evaluations, build_limits, build_target
from flexray.config.speeds import build_speeds
from flexray.core.checks import not_negative, one_of, positive, shown, whole, yes_or_no
from flexray.core.errors import ConfigError, blame, near_match
from flexray.core.messages import LABELS_AT, SERVER, SERVER_INDEX
from flexray.core.speeds import Speeds
from flexray.data.base import Dataset, Outline, SavedModel
from flexray.data.outlines import check_outline
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.limits import check_limits
from flexray.engine.hosts.plan import ClusterPlan
from flexray.engine.parties.spec import ParticipantSpec, Shared
from flexray.models import OFFERS
from flexray.optimizers import LocalOptimizer

Config = Mapping[str, Any]
"""The composed configuration as plain dictionaries and lists."""

OVERRUN = ("wait", "ignore")
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
        flexray.core.errors.UserError: Something in the configuration or the data is wrong.
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
    system = _system(config, participants, timeout, speeds)
    experiment = Experiment(
        shared=shared,
        parties=participants[:-1],
        algorithm=_algorithm(config, system),
        speeds=speeds,
        decays=tuple(build_decay(config, overrides.get(k, {}), name) for k, name in enumerate(names)),
        limits=build_limits(config),
        target=build_target(config, outline),
        evaluations=build_evaluations(config),
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


def _system(config: Config, participants: Sequence[ParticipantSpec], timeout: float, speeds: Speeds) -> System:
    names = tuple(p.name for p in participants)
    parties = names[:-1]
    system = System(
        names=names,
        base_units=speeds.base_units,
        timeout_units=timeout,
        party_comm_units=resolve("network.t_comm", config["network"]["t_comm"], parties, not_negative),
        lr=resolve("lr", config["lr"], names, positive),
        base_rates=resolve("adaptive.A", config["adaptive"]["A"], names, positive),
        optimizers=tuple(p.optimizer for p in participants),
        frozen=tuple(p.frozen for p in participants),
        least_utilization=speeds.least_utilization,
        waits_for_overrun=one_of("speeds.overrun", config["speeds"]["overrun"], OVERRUN) == "wait",
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
