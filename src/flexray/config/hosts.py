"""From ``cluster`` of the configuration to hosts and what they ask of the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from flexray.config.by_participant import resolve
from flexray.core.checks import not_negative, whole
from flexray.core.errors import ConfigError, near_match
from flexray.engine.hosts.plan import STRATEGIES, ClusterPlan, HostSpec, host_name, place, together
from flexray.engine.hosts.resources import check_address

KINDS = PACKED, LOCAL, RAY, INLINE = "packed", "local", "ray", "inline"

VALUE = r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
SELECTOR = rf"!?({VALUE}|in\({VALUE}(, ?{VALUE})*\))"
LABEL = rf"({VALUE}/)?{VALUE}"
"""What Ray takes."""


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
    driver = HostSpec(
        f"flexray-{dataset}-driver",
        _cpus(node, "cpus_driver"),
        labels=_labels("cluster.labels_driver", node["labels_driver"]),
    )
    threads = config["party_threads"]
    if kind not in KINDS:
        raise ConfigError(f"cluster.kind: unknown '{kind}'{near_match(str(kind), KINDS)}")
    strategy, wait_s = node["strategy"], not_negative("cluster.wait", node["wait"])
    if strategy not in STRATEGIES:
        raise ConfigError(f"cluster.strategy: unknown '{strategy}'{near_match(str(strategy), STRATEGIES)}")
    per_actor = 1
    if node["parties_per_actor"] is not None:
        per_actor = whole("cluster.parties_per_actor", node["parties_per_actor"], low=1)
    elif kind == PACKED:
        per_actor = -(-num_parties // (num_cpus or os.cpu_count() or 1))
    address = check_address("cluster.address", node["address"])
    placement = place(num_parties, per_actor)
    hosts = _hosts(config, dataset, names, placement.groups, overrides)  # also refuses what an inline run ignores
    if kind == INLINE:
        gpus = sum(host.gpus for host in hosts)
        return ClusterPlan(kind, together(num_parties), (), driver, threads=threads, gpus=gpus)
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
    hosts = []
    for group in groups:
        resources: dict[str, float] = {}
        for k in group:
            for name, amount in _resources(node, overrides.get(k, {})).items():
                resources[name] = resources.get(name, 0.0) + amount
        share = None if cpus is None else sum(cpus[k] for k in group)
        labels = _labels_of_group(node, names, group, overrides)
        hosts.append(HostSpec(host_name(dataset, group, names), share, sum(gpus[k] for k in group), resources, labels))
    own = overrides.get(len(parties), {})
    server_gpus = not_negative("cluster.gpus_server", node["gpus_server"])
    server_resources, labels = _resources({"resources": None}, own), _labels("parties.server.labels", own.get("labels"))
    server = f"flexray-{dataset}-server"
    hosts.append(HostSpec(server, _cpus(node, "cpus_server"), server_gpus, server_resources, labels))
    return tuple(hosts)


def _labels_of_group(
    node: Mapping[str, Any], names: Sequence[str], group: Sequence[int], overrides: Mapping[int, Mapping[str, Any]]
) -> dict[str, str]:
    """Return the labels that the node of these parties must have."""
    result: dict[str, str] = {}
    for k in group:
        own = _labels(f"parties.{names[k]}.labels", overrides.get(k, {}).get("labels"))
        for key, value in (_labels("cluster.labels", node["labels"]) | own).items():
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


def _cpus(node: Mapping[str, Any], key: str) -> float | None:
    return None if node[key] is None else not_negative(f"cluster.{key}", node[key])
