"""From configuration to objects. Below this module there are plain arguments and frozen dataclasses only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from flexray.algorithms.adaptive import FIRST, static_rates
from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm, System
from flexray.algorithms.replay import replayed
from flexray.config import schedule
from flexray.config.by_participant import resolve
from flexray.config.components import make
from flexray.config.costs import build_costs
from flexray.config.hosts import build_cluster, build_computes
from flexray.config.labels import labels_at, with_added_party, with_features
from flexray.config.links import build_absences, check_algorithm, check_overlapping, wires
from flexray.config.measured import with_measured
from flexray.config.missing import check_combined, stands_in, with_missing
from flexray.config.network import build_network, round_trips
from flexray.config.participants import build_participants, own_keys_of
from flexray.config.recording import Recording, chosen_recording
from flexray.config.schedule import Safety
from flexray.config.speeds import build_speeds
from flexray.config.timeouts import AUTO, check_auto
from flexray.core.absence import Absences
from flexray.core.checks import one_of, positive, shown, whole, yes_or_no
from flexray.core.costs import Costs
from flexray.core.errors import ConfigError, blame
from flexray.core.measured import Measured
from flexray.core.messages import SERVER
from flexray.core.speeds import Speeds
from flexray.data.base import Dataset, Outline, SavedModel
from flexray.data.outlines import check_outline
from flexray.engine.driver.experiment import Experiment, WallClock
from flexray.engine.driver.limits import check_limits
from flexray.engine.hosts.plan import ClusterPlan
from flexray.engine.parties.spec import STACKING, ParticipantSpec, Shared, Stacking

Config = Mapping[str, Any]
"""The composed configuration as plain dictionaries and lists."""

BATCH_KEYS = ("batch_size", "replacement", "drop_last")
OVERRUN = ("wait", "ignore")
MOST_THREADS = 1024


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
        costs: What its time and bytes cost; None: nobody asks.
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
    costs: Costs | None = None


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
    data, outline = _dataset(config, base_dir, saved)
    seed, wall = whole("seed", config["seed"], low=0, high=2**63 - 1), schedule.build_wall(config)
    outline = with_added_party(config, with_missing(config, outline, seed, saved is not None and saved.has_new_data))
    names = (*outline.parties, SERVER)
    own = own_keys_of(config, names)
    cluster = build_cluster(config, dataset, names, own)
    computes = build_computes(config, cluster, len(outline.parties))
    participants = build_participants(config, names, own, computes, base_dir)
    config, measured = with_measured(config, names, base_dir)
    timeout, speeds = build_speeds(config, dataset, names, base_dir)
    recording = chosen_recording(config, names, base_dir)
    algorithm = _algorithm(config, _system(config, participants, timeout, speeds, wall, measured), algo, recording)
    absences = build_absences(config, outline.parties, seed, algorithm, recording.absences if recording else None)
    experiment = Experiment(
        shared=_shared(config, data, outline, participants[-1], seed, absences, saved, algorithm),
        parties=participants[:-1],
        algorithm=algorithm,
        speeds=speeds,
        decays=schedule.build_decays(config, names, own),
        limits=schedule.build_limits(config, recording),
        target=schedule.build_target(config, outline),
        evaluations=schedule.build_evaluations(config),
        time_unit=recording.time_unit if recording else "seconds" if wall or measured else "units",
        wall=wall,
        network=build_network(config, outline.parties, seed, base_dir, algorithm.takes_turns),
        absences=absences,
    )
    for check in (check_overlapping, check_limits, check_combined):
        check(experiment)
    return Job(
        algo=algo,
        dataset=dataset,
        experiment=experiment,
        cluster=cluster,
        timeline_rounds=whole("timeline_rounds", config["timeline_rounds"], low=0),
        progress=config["progress"],
        smoothness=resolve("smoothness", config["smoothness"], names, positive, ()) or None,
        safety=schedule.build_safety(config, experiment.steps_per_batch, base_dir),
        costs=build_costs(config, names, algorithm, experiment.time_unit),
    )


def _dataset(config: Config, base_dir: Path, saved: SavedModel | None) -> tuple[Dataset, Outline]:
    """Build the dataset, and read its outline; relative paths start from ``base_dir``."""
    node = {key: value for key, value in config["dataset"].items() if key not in BATCH_KEYS}
    dataset: Dataset = make("dataset", with_full_paths(base_dir, node), Dataset)
    dataset = dataset if saved is None else dataset.for_prediction(saved)
    with blame("dataset", "reading its outline"):
        return dataset, check_outline(dataset.outline(), dataset, predicts=saved is not None)


def with_full_paths(base_dir: Path, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys of the dataset, with relative paths among them below ``base_dir``.

    Raises:
        ConfigError: A path is no text.
    """
    node = dict(keys)
    for key in ("path", "labels_file", "cache", "class_list"):
        if node.get(key) is not None:
            node[key] = _full_path(f"dataset.{key}", node[key], base_dir)
    if isinstance(bert := node.get("bert"), str) and (base_dir / Path(bert).expanduser()).is_dir():
        node["bert"] = _full_path("dataset.bert", bert, base_dir)
    if isinstance(node.get("files"), Mapping):
        node["files"] = {k: _full_path(f"dataset.files.{k}", v, base_dir) for k, v in node["files"].items()}
    return node


def _full_path(key: str, path: Any, base_dir: Path) -> str:
    if not isinstance(path, str) or not path:
        raise ConfigError(f"{key}: expected a path, got {shown(path)}")
    return os.fspath(base_dir / Path(path).expanduser())


def _shared(
    config: Config, data: Dataset, outline: Outline, server: ParticipantSpec, seed: int, absences: Absences | None,
    saved: SavedModel | None, algorithm: RoundAlgorithm | EventAlgorithm,
) -> Shared:  # fmt: skip
    dtype, stack = config["dtype"], one_of("stack", config["stack"], STACKING)
    if dtype not in ("float32", "float64"):
        raise ConfigError(f"dtype: expected float32 or float64, got {dtype!r}")
    return Shared(
        dataset=data,
        outline=outline,
        server=server,
        seed=seed,
        batch_size=whole("dataset.batch_size", config["dataset"].get("batch_size"), low=1),
        replacement=yes_or_no("dataset.replacement", config["dataset"].get("replacement", False)),
        drop_last=yes_or_no("dataset.drop_last", config["dataset"].get("drop_last", False)),
        embedding_width=whole("embedding", config["embedding"], low=1),
        dtype=cast(Literal["float32", "float64"], dtype),
        threads=whole("party_threads", config["party_threads"], low=1, high=MOST_THREADS),
        wires=wires(config, with_features(config, outline.parties)),
        error_feedback=yes_or_no("network.error_feedback", config["network"]["error_feedback"]),
        labels_at=labels_at(config, outline.parties),
        may_miss=frozenset() if absences is None else absences.possible,
        predicts=saved is not None,
        stack=cast(Stacking, stack),
        learns=config["learn"],
        stands_in=stands_in(config),
        selects=isinstance(algorithm, RoundAlgorithm) and algorithm.selects,
        clients=algorithm.clients if isinstance(algorithm, RoundAlgorithm) else 1,
        per_gradient=algorithm.per_gradient if isinstance(algorithm, RoundAlgorithm) else 0,
    )


def _system(
    config: Config, participants: Sequence[ParticipantSpec], timeout: float, speeds: Speeds, wall: WallClock | None,
    measured: Measured | None,
) -> System:  # fmt: skip
    names, frozen = tuple(p.name for p in participants), tuple(p.frozen for p in participants)
    system = System(
        names=names,
        base_units=measured.unit_s(frozen) if measured else speeds.base_units,
        timeout_units=timeout,
        party_comm_units=round_trips(config, names[:-1]),
        lr=resolve("lr", config["lr"], names, positive),
        base_rates=resolve("adaptive.A", config["adaptive"]["A"], names, positive),
        optimizers=tuple(p.optimizer for p in participants),
        frozen=frozen,
        labels_only=frozenset(k for k, p in enumerate(participants) if p.labels_only),
        least_utilization=speeds.least_utilization,
        waits_for_overrun=one_of("speeds.overrun", config["speeds"]["overrun"], OVERRUN) == "wait" and not wall,
        measured=measured,
        chooses_timeout=config["timeout"] == AUTO and config["speeds"]["kind"] != "replay",
    )
    rates = one_of("rates", config["rates"], ("fixed", "static"))
    one_of("adaptive.first", config["adaptive"]["first"], FIRST)
    return replace(system, lr=static_rates(system)) if rates == "static" else system


def _algorithm(
    config: Config, system: System, algo: str, recording: Recording | None
) -> RoundAlgorithm | EventAlgorithm:
    """Return the chosen algorithm, or what repeats the rounds that a run of it recorded."""
    algorithm: RoundAlgorithm | EventAlgorithm = make("algo", config["algo"], (RoundAlgorithm, EventAlgorithm), system)
    check_algorithm(config, algorithm)
    check_auto(config, algorithm)
    schedule.check_turns(algorithm, config["clock"]["kind"] == schedule.WALL)
    if recording is None:
        return algorithm
    recording.check_algorithm(algo, algorithm.takes_turns)
    return replayed(algorithm, recording.rounds)
