"""Where participants run, from ``cluster``, ``device`` and ``precision``: hosts, what they ask for, and devices."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from flexray.config.by_participant import count, optional, resolve
from flexray.core.checks import not_negative
from flexray.core.errors import ConfigError, ResourceError, near_match
from flexray.engine.driver.experiment import Experiment
from flexray.engine.hosts.plan import STRATEGIES, ClusterPlan, HostSpec, host_name, place, together
from flexray.engine.hosts.resources import check_address
from flexray.engine.parties.devices import AUTO, CPU, CUDA, DEVICES, FP32, PRECISIONS, TF32, Compute

KINDS = PACKED, LOCAL, RAY, INLINE = "packed", "local", "ray", "inline"

VALUE = r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
SELECTOR = rf"!?({VALUE}|in\({VALUE}(, ?{VALUE})*\))"
LABEL = rf"({VALUE}/)?{VALUE}"
"""Patterns of Ray's label selectors."""


def build_cluster(
    config: Mapping[str, Any], dataset: str, names: Sequence[str], overrides: Mapping[int, Mapping[str, Any]]
) -> ClusterPlan:
    """Return which host holds which participants, and what each host asks of the machine.

    Args:
        config: The composed configuration.
        dataset: Name of the chosen dataset, which names hosts.
        names: Names of the parties, then ``server``.
        overrides: Keys of single participants, by place in ``names``.
    """
    node, kind, num_parties = config["cluster"], config["cluster"]["kind"], len(names) - 1
    num_cpus = optional("cluster.num_cpus", node["num_cpus"], count)
    cpus = optional("cluster.cpus_driver", node["cpus_driver"], not_negative)
    labels = _labels("cluster.labels_driver", node["labels_driver"])
    driver, threads = HostSpec(f"flexray-{dataset}-driver", cpus, labels=labels), config["party_threads"]
    if kind not in KINDS:
        raise ConfigError(f"cluster.kind: unknown '{kind}'{near_match(str(kind), KINDS)}")
    strategy, wait_s = node["strategy"], not_negative("cluster.wait", node["wait"])
    if strategy not in STRATEGIES:
        raise ConfigError(f"cluster.strategy: unknown '{strategy}'{near_match(str(strategy), STRATEGIES)}")
    per_actor = optional("cluster.parties_per_actor", node["parties_per_actor"], count)
    if per_actor is None:
        per_actor = -(-num_parties // (num_cpus or os.cpu_count() or 1)) if kind == PACKED else 1
    address = check_address("cluster.address", node["address"])
    placement = place(num_parties, per_actor)
    hosts = _hosts(config, dataset, names, placement.groups, overrides)  # also checks keys that an inline run ignores
    if kind == INLINE or not config["learn"]:
        gpus = sum(host.gpus for host in hosts)
        return ClusterPlan(INLINE, together(num_parties), (), driver, threads=threads, gpus=gpus)
    return ClusterPlan(kind, placement, hosts, driver, address, num_cpus, threads, 0.0, strategy, wait_s)


def _hosts(
    config: Mapping[str, Any],
    dataset: str,
    names: Sequence[str],
    groups: Sequence[Sequence[int]],
    overrides: Mapping[int, Mapping[str, Any]],
) -> tuple[HostSpec, ...]:
    node, parties = config["cluster"], names[:-1]
    cpus: tuple[float, ...] | None = None
    if node["cpus_per_party"] is not None:
        cpus = resolve("cluster.cpus_per_party", node["cpus_per_party"], parties, not_negative)
    gpus = resolve("cluster.gpus_per_party", node["gpus_per_party"], parties, not_negative)
    usual, usual_labels = _resources(node, {}), _labels("cluster.labels", node["labels"])
    hosts = []
    for group in groups:
        resources: dict[str, float] = {}
        for k in group:
            for name, amount in (_resources(node, overrides[k]) if k in overrides else usual).items():
                resources[name] = resources.get(name, 0.0) + amount
        share = None if cpus is None else sum(cpus[k] for k in group)
        labels = _labels_of_group(usual_labels, names, group, overrides)
        hosts.append(HostSpec(host_name(dataset, group, names), share, sum(gpus[k] for k in group), resources, labels))
    own = overrides.get(len(parties), {})
    server_gpus = not_negative("cluster.gpus_server", node["gpus_server"])
    server_resources, labels = _resources({"resources": None}, own), _labels("parties.server.labels", own.get("labels"))
    server = f"flexray-{dataset}-server"
    server_cpus = optional("cluster.cpus_server", node["cpus_server"], not_negative)
    hosts.append(HostSpec(server, server_cpus, server_gpus, server_resources, labels))
    return tuple(hosts)


def _labels_of_group(
    usual: Mapping[str, str], names: Sequence[str], group: Sequence[int], overrides: Mapping[int, Mapping[str, Any]]
) -> dict[str, str]:
    """Return the labels that the node of a process with these parties must have."""
    result: dict[str, str] = {}
    for k in group:
        own = _labels(f"parties.{names[k]}.labels", overrides[k].get("labels")) if k in overrides else {}
        for key, value in {**usual, **own}.items():
            if result.setdefault(key, value) != value:
                raise ConfigError(
                    f"parties.{names[k]}.labels.{key}: '{value}', but a party of the same process asks for"
                    f" '{result[key]}'; expected one for all, or a process each (cluster.parties_per_actor=1)"
                )
    return result


def _labels(key: str, given: Any) -> dict[str, str]:
    """Return Ray label selectors: ``value``, ``!value``, ``in(a,b)`` or ``!in(a,b)`` by label."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{key}: expected a mapping from label to value, got {given!r}")
    result = {str(name): str(value) for name, value in (given or {}).items()}
    for name, value in result.items():
        if not re.fullmatch(SELECTOR, value):
            raise ConfigError(f"{key}.{name}: expected a value, !value, in(a,b) or !in(a,b), got '{value}'")
        if not re.fullmatch(LABEL, name):
            raise ConfigError(f"{key}: expected a label of letters, digits and _.-/, got '{name}'")
    return result


def _resources(node: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, float]:
    """Return the custom resources of one participant: those for all parties, then its own."""
    result: dict[str, float] = {}
    for key, given in (("cluster.resources", node["resources"]), ("parties.resources", own.get("resources"))):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(f"{key}: expected a mapping from resource to amount, got {given!r}")
        result.update({name: not_negative(f"{key}.{name}", amount) for name, amount in (given or {}).items()})
    return result


def build_computes(config: Mapping[str, Any], cluster: ClusterPlan, num_parties: int) -> list[Compute]:
    """Return device and precision of every party and, last, of the server.

    With ``device=auto`` a process that has a GPU share computes on the GPU.

    Raises:
        UserError: ``cuda`` is asked for where there is no GPU or no share of one, or the precision does not fit.
    """
    device, precision = config["device"], config["precision"]
    for key, value, known in (("device", device, DEVICES), ("precision", precision, PRECISIONS)):
        if value not in known:
            raise ConfigError(f"{key}: unknown '{value}'{near_match(str(value), known)}")
    if precision != FP32 and config["dtype"] != "float32":
        raise ConfigError(f"precision: {precision} works on dtype=float32, got dtype={config['dtype']}")
    kinds = _device_kinds(device, cluster, num_parties)
    if precision == TF32 and CUDA not in kinds:
        raise ConfigError("precision: tf32 is a format of GPUs, and nobody computes on one; expected fp32 or bf16")
    return [Compute(kind, FP32 if kind == CPU and precision == TF32 else precision) for kind in kinds]


def _device_kinds(device: str, cluster: ClusterPlan, num_parties: int) -> list[str]:
    """Return ``cpu`` or ``cuda`` for each party, and the server last."""
    if device == CPU:
        return [CPU] * (num_parties + 1)
    inline = not cluster.hosts
    shares = [cluster.gpus] if inline else [host.gpus for host in cluster.hosts]
    if device == AUTO:
        there = any(shares) and (cluster.kind == "ray" or torch.cuda.is_available())
        kinds = [CUDA if share and there else CPU for share in shares]
    else:
        _require_cuda(cluster)
        kinds = [CUDA] * len(shares)
    if inline:
        return kinds * (num_parties + 1)
    by_party = {k: kind for group, kind in zip(cluster.placement.groups, kinds, strict=False) for k in group}
    return [*(by_party[k] for k in range(num_parties)), kinds[-1]]


def _require_cuda(cluster: ClusterPlan) -> None:
    """Refuse ``device=cuda`` without a GPU, or without a share of it for each process."""
    if cluster.kind != "ray" and not torch.cuda.is_available():
        raise ResourceError(f"device: cuda is asked for, but torch {torch.__version__} sees no GPU here; expected cpu")
    lacking = [host for host in cluster.hosts if not host.gpus]
    if lacking:
        key = "cluster.gpus_server" if lacking[0] is cluster.hosts[-1] else "cluster.gpus_per_party"
        raise ResourceError(
            f"device: cuda is asked for, but {lacking[0].name} has no share of a GPU; expected {key} above 0, such as"
            f" 0.05, or device=auto"
        )


def described_computes(x: Experiment) -> dict[str, Any]:
    """Return ``device`` and ``precision`` of a run, by participant where they differ."""
    computes = {spec.name: spec.compute for spec in (*x.parties, x.shared.server)}
    result: dict[str, Any] = {}
    for key in ("device", "precision"):
        values = {name: getattr(compute, key) for name, compute in computes.items()}
        result[key] = next(iter(values.values())) if len(set(values.values())) == 1 else values
    return result
