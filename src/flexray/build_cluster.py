"""From ``cluster`` of the configuration to hosts and what they ask of the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from flexray.cluster import ClusterPlan, HostSpec, host_name, place
from flexray.errors import ConfigError, near_match
from flexray.runtime.inprocess import InProcess
from flexray.values import not_negative, resolve, whole

KINDS = PACKED, LOCAL, RAY, INLINE = "packed", "local", "ray", "inline"


def build_cluster(
    config: Mapping[str, Any], dataset: str, names: Sequence[str], overrides: Mapping[int, Mapping[str, Any]]
) -> ClusterPlan:
    """Return who lives where, and what each host asks of the machine.

    Args:
        config: The composed configuration.
        dataset: Name of the chosen dataset, which names hosts.
        names: Names of the parties, then ``server``.
        overrides: Keys of single participants, by place in ``names``.
    """
    node, kind, num_parties = config["cluster"], config["cluster"]["kind"], len(names) - 1
    num_cpus = None if node["num_cpus"] is None else whole("cluster.num_cpus", node["num_cpus"], low=1)
    driver = HostSpec(f"flexray-{dataset}-driver", _cpus(node, "cpus_driver"))
    threads = config["party_threads"]
    if kind not in KINDS:
        raise ConfigError(f"cluster.kind: unknown '{kind}'{near_match(str(kind), KINDS)}")
    per_actor = 1
    if node["parties_per_actor"] is not None:
        per_actor = whole("cluster.parties_per_actor", node["parties_per_actor"], low=1)
    elif kind == PACKED:
        per_actor = -(-num_parties // (num_cpus or os.cpu_count() or 1))
    placement = place(num_parties, per_actor)
    hosts = _hosts(config, dataset, names, placement.groups, overrides)  # also refuses what an inline run ignores
    if kind == INLINE:
        gpus = sum(host.gpus for host in hosts)
        return ClusterPlan(kind, InProcess.placement(num_parties), (), driver, threads=threads, gpus=gpus)
    return ClusterPlan(kind, placement, hosts, driver, node["address"], num_cpus, threads)


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
    hosts = []
    for group in groups:
        resources: dict[str, float] = {}
        for k in group:
            for name, amount in _resources(node, overrides.get(k, {})).items():
                resources[name] = resources.get(name, 0.0) + amount
        share = None if cpus is None else sum(cpus[k] for k in group)
        hosts.append(HostSpec(host_name(dataset, group, names), share, sum(gpus[k] for k in group), resources))
    server_gpus = not_negative("cluster.gpus_server", node["gpus_server"])
    server_resources = _resources({"resources": None}, overrides.get(len(parties), {}))
    hosts.append(HostSpec(f"flexray-{dataset}-server", _cpus(node, "cpus_server"), server_gpus, server_resources))
    return tuple(hosts)


def _resources(node: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, float]:
    """Return the custom resources of one participant: those for all parties, then its own."""
    result: dict[str, float] = {}
    for key, given in (("cluster.resources", node["resources"]), ("parties.resources", own.get("resources"))):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(f"{key}: expected a mapping from resource to amount, got {given!r}")
        result.update({name: not_negative(f"{key}.{name}", amount) for name, amount in (given or {}).items()})
    return result


def _cpus(node: Mapping[str, Any], key: str) -> float | None:
    return None if node[key] is None else not_negative(f"cluster.{key}", node[key])
