"""The typed schema of a run's configuration: its keys and their types.

Defaults are here, unless a choice in ``conf/`` has others. ``Any`` marks keys that take a number, a list or a mapping;
they are checked when :mod:`flexray.config.job` builds objects, like everything that depends on the dataset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from flexray.core.errors import ConfigError, near_match
from flexray.core.files import shipped_folder


@dataclass
class NetworkTraceConfig:
    """A trace that bandwidths follow: its values multiply them; ``machines`` are those of the parties."""

    path: str | None = None
    machines: Any = None
    advance: str = "round"
    sample_units: float | None = None
    at_end: str = "wrap"


@dataclass
class NetworkConfig:
    """Links. ``t_comm``: round-trip units; ``bandwidth``: bytes per unit, which then come on top of it.

    Seven keys, from ``latency`` to ``trace``, time messages one by one, see :mod:`flexray.core.network`; ``clip`` to
    ``bits`` change the embeddings on their way, see :class:`flexray.core.links.Wire`. Each is one number or one per
    party, but for ``shared`` and ``trace``. ``error_feedback``: what is sent is what changed since a sample was sent.
    """

    t_comm: Any = 10.0
    bandwidth: Any = None
    latency: Any = None
    up: Any = None
    down: Any = None
    shared: Any = None
    jitter: Any = 0.0
    loss: Any = 0.0
    trace: NetworkTraceConfig = field(default_factory=NetworkTraceConfig)
    clip: Any = None
    noise: Any = 0.0
    top_k: Any = 1.0
    bits: Any = None
    error_feedback: bool = False


@dataclass
class AbsenceConfig:
    """Parties that miss rounds: each by chance, or while its utilization is ``above``; one number or one per party.

    ``sample``: how many parties are drawn into each round; null: all.
    """

    probability: Any = 0.0
    above: Any = None
    sample: int | None = None


@dataclass
class MissingConfig:
    """Samples that parties do not have, and what stands in for their embeddings.

    ``fraction``: the part of its training samples that a party goes without; one number, or one per party.
    ``test_fraction``: that of validation and test samples; null: as ``fraction``.
    """

    fraction: Any = 0.0
    test_fraction: Any = None
    stand_in: str = "zeros"


@dataclass
class CostsConfig:
    """What a run costs, if anything is given: one number, or one per participant.

    Energy: of a unit of time of computing (``clock=wall``: of a second), and of a byte on a party's link. Money: of an
    hour of a machine, and of 1e9 bytes on a party's link. ``seconds_per_unit`` turns units of time into hours.
    """

    joules_per_unit: Any = None
    joules_per_byte: Any = None
    price_per_hour: Any = None
    price_per_gb: Any = None
    seconds_per_unit: float | None = None


@dataclass
class AdaptiveConfig:
    """Adaptive Flex-VFL and static rates. ``A``: A_k, a number, a list or a mapping like ``lr``."""

    A: Any = 0.1
    weighted: bool = True
    first: str = "speeds"


@dataclass
class DecayConfig:
    """Learning-rate decay: times ``factor`` at each of ``milestones``, ``by`` local iterations or epochs so far."""

    milestones: list[int] = field(default_factory=list)
    factor: float = 0.1
    by: str = "iterations"


@dataclass
class SpeedsConfig:
    """Speeds. The three after ``kind`` override the choice: for all, as a list, or by participant.

    A utilization above ``max_utilization`` counts as that. ``overrun``: what a round does with a local iteration that
    takes longer than the timeout, ``wait`` for its end or ``ignore`` it. The others belong to ``speeds=trace``,
    ``path`` also to ``speeds=replay``.
    """

    kind: str = "paper"
    iterations: Any = None
    unit_time: Any = None
    utilization: Any = None
    max_utilization: float = 0.99
    overrun: str = "wait"
    path: str | None = None
    machines: Any = None
    advance: str = "round"
    sample_units: float | None = None
    at_end: str = "wrap"


@dataclass
class ClusterConfig:
    """Where participants run and what they get; null means: what fits the machine.

    ``labels`` select nodes by Ray's labels, for all parties; ``wait``: seconds to wait for what others have reserved.
    """

    kind: str = "local"
    address: str = "auto"
    num_cpus: int | None = None
    cpus_per_party: Any = None
    gpus_per_party: Any = 0
    cpus_server: float | None = None
    gpus_server: float = 0
    cpus_driver: float | None = None
    resources: Any = None
    parties_per_actor: int | None = None
    strategy: str = "pack"
    labels: Any = None
    labels_driver: Any = None
    wait: float = 8.0


@dataclass
class ClockConfig:
    """The clock: ``virtual`` units or ``wall`` seconds."""

    kind: str = "virtual"


@dataclass
class CheckpointConfig:
    """When and where a run is saved; null rounds mean every 100, 0 never."""

    every: int | None = None
    recover_every: int | None = None
    keep: int = 2
    dir: str | None = None


@dataclass
class LoggerConfig:
    """An experiment tracker beside the run folder."""

    kind: str = "none"
    project: str = "flexray"
    uri: str | None = None


@dataclass
class RunConfig:
    """The whole configuration of a run."""

    algo: Any = None
    dataset: Any = None
    model: Any = None
    server: Any = None
    optimizer: Any = None
    parties: dict[str, Any] = field(default_factory=dict)
    speeds: SpeedsConfig = field(default_factory=SpeedsConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    clock: ClockConfig = field(default_factory=ClockConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    absence: AbsenceConfig = field(default_factory=AbsenceConfig)
    missing: MissingConfig = field(default_factory=MissingConfig)
    costs: CostsConfig = field(default_factory=CostsConfig)
    adaptive: AdaptiveConfig = field(default_factory=AdaptiveConfig)
    lr_decay: DecayConfig = field(default_factory=DecayConfig)
    rounds: int | None = None
    epochs: float | None = None
    max_time: float | None = None
    seed: int = 0
    timeout: Any = None
    lr: Any = 0.01
    smoothness: Any = None
    rates: str = "fixed"
    frozen: Any = field(default_factory=list)
    labels_at: Any = "all"
    clip_norm: float | None = None
    embedding: int = 32
    eval_every: int | None = None
    eval_every_units: float | None = None
    eval_as_sent: bool = False
    eval_train: bool = True
    target: float | None = None
    target_metric: str | None = None
    stop_at_target: bool = False
    dtype: str = "float32"
    device: str = "auto"
    precision: str = "fp32"
    party_threads: int = 1
    stack: str = "exact"
    learn: bool = True
    timeline_rounds: int = 1000
    progress: bool = True
    max_failures: int = 3
    stall_timeout: float | None = 600.0
    resume: str | None = None
    trust: bool = False


def register() -> None:
    """Register the schema, under a name of flexray's own, and the resolver ``${by_algo:...}``."""
    store = ConfigStore.instance()
    if (
        "flexray_schema.yaml" not in store.repo
    ):  # to make a node of it takes a tenth of the time that Hydra needs for a job
        store.store(name="flexray_schema", node=RunConfig)
    OmegaConf.register_new_resolver("by_algo", _by_algo, replace=True)


def _by_algo(value: Any, others: Mapping[str, Any], *, _root_: DictConfig) -> Any:
    """Return what ``others`` has for the chosen algorithm, by its name, or else ``value``.

    As in ``lr: ${by_algo:0.001,{pbcd:0.05}}``: Hydra reads experiments before it knows the algorithm, so they cannot
    choose a file by algorithm.
    """
    names = shipped_classes("algo")
    for name in others:
        if name not in names.values():
            raise ConfigError(f"by_algo: unknown algorithm '{name}'{near_match(str(name), names.values())}")
    return others.get(names.get(_root_.algo.get("_target_"), ""), value)


@cache
def shipped_classes(group: str) -> dict[str, str]:
    """Return the names of a group's choices by their classes."""
    files = {file.stem: OmegaConf.load(file) for file in sorted((config_folder() / group).glob("*.yaml"))}
    targets = {
        name: OmegaConf.select(node, f"{group}._target_") or OmegaConf.select(node, "_target_")
        for name, node in files.items()
    }
    return {str(target): name for name, target in targets.items()}


def settle(node: DictConfig) -> None:
    """Replace every ``${by_algo:...}`` by its number, so that a recorded configuration shows it.

    Other interpolations stay: they show which keys go together. A whole number of the key ``timeout``, which takes a
    word, too, becomes a float, as other times are.
    """
    raw: Any = OmegaConf.to_container(node, resolve=False)
    for key, value in raw.items():
        if isinstance(value, str) and value.startswith("${by_algo:"):
            node[key] = node[key]
        elif key == "timeout" and type(value) is int:
            node[key] = float(value)
        elif isinstance(value, dict):
            settle(node[key])


def config_folder() -> Path:
    """Return the folder of configuration files, in an installed package or in the source tree."""
    return shipped_folder("conf")
