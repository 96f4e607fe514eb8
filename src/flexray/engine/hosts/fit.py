"""Whether hosts fit the nodes of a cluster, and where: plain arithmetic, no Ray."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flexray.core.errors import ResourceError
from flexray.engine.hosts.plan import STRICT_SPREAD, HostSpec

MOST_STEPS = 3_000
SHARES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05)
"""Parts of an equal share of the free CPUs that are tried, the largest first."""
SLACK = 1e-6

Demand = dict[str, float]


@dataclass(frozen=True)
class Node:
    """A machine of the cluster.

    Args:
        name: Its address and the beginning of its ID.
        total: What it has, by resource.
        free: What nobody has reserved.
        labels: Its labels.
    """

    name: str
    total: Mapping[str, float]
    free: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)


class UndecidedError(Exception):
    """Too many ways to try them all."""


def matches(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether a node with these labels is meant: ``value``, ``!value``, ``in(a,b)`` or ``!in(a,b)`` for each key."""
    for key, wanted in selector.items():
        values = re.sub(r"^in\(|\)$", "", wanted.removeprefix("!")).replace(" ", "").split(",")
        if (labels.get(key) in values) == wanted.startswith("!"):
            return False
    return True


def demands(specs: Sequence[HostSpec], free_cpus: float, part: float = 1.0) -> list[Demand]:
    """Return the resources of each host; those without a CPU demand get ``part`` of an equal share of what is left.

    A share is at most 1 CPU.
    """
    open_places = sum(spec.cpus is None for spec in specs)
    left = max(0.0, free_cpus - sum(spec.cpus or 0.0 for spec in specs))
    share = int(min(1.0, left / open_places) * part * 1000) / 1000 if open_places else 0.0
    result = []
    for spec in specs:
        wanted = {"CPU": share if spec.cpus is None else spec.cpus, "GPU": spec.gpus, **spec.resources}
        result.append({key: amount for key, amount in wanted.items() if amount > 0})
    return result


def share_out(specs: Sequence[HostSpec], nodes: Sequence[Node], strategy: str) -> list[Demand]:
    """Return the resources of each host, with such a share of the free CPUs that all fit the nodes, if need be none."""
    free_cpus = sum(node.free.get("CPU", 0.0) for node in nodes)
    for part in SHARES:
        asked = demands(specs, free_cpus, part)
        try:
            if assign(specs, asked, nodes, strategy, free=True) is not None:
                return asked
        except UndecidedError:
            continue
    return demands(specs, 0.0)


def check_fit(specs: Sequence[HostSpec], nodes: Sequence[Node], strategy: str) -> None:
    """Refuse hosts that could not live on these nodes even if nothing else ran there.

    Raises:
        ResourceError: One line with what was asked and what each node has.
    """
    asked = demands(specs, 0.0)
    for spec, demand in zip(specs, asked, strict=True):
        if not any(holds(node.total, demand) and matches(node.labels, spec.labels) for node in nodes):
            raise ResourceError(
                f"cluster: {spec.name} asks for {described(demand, spec.labels)}, but no node has that:"
                f" {describe_nodes(nodes, demand, spec.labels)}"
            )
    if strategy == STRICT_SPREAD and len(specs) > len(nodes):
        raise ResourceError(
            f"cluster.strategy: strict_spread puts the driver, the server and {len(specs) - 2} party hosts on"
            f" {len(specs)} nodes, but there are {len(nodes)}"
        )
    try:
        if assign(specs, asked, nodes, strategy, free=False) is not None:
            return
    except UndecidedError:
        return  # Ray finds out
    keys = {key: 0.0 for demand in asked for key in demand}
    labels = {key: "" for spec in specs for key in spec.labels}
    raise ResourceError(
        f"cluster: each of the {len(specs)} hosts fits a node, but not all of them together:"
        f" {describe_nodes(nodes, keys, labels)}"
    )


def assign(
    specs: Sequence[HostSpec], asked: Sequence[Demand], nodes: Sequence[Node], strategy: str, *, free: bool
) -> list[int] | None:
    """Return a node for each host, or None if there is no way; what Ray really does may be another way.

    Args:
        specs: The hosts.
        asked: What each asks for.
        nodes: Where they may live.
        strategy: ``pack``, ``spread`` or ``strict_spread``.
        free: Count what is free rather than all.

    Raises:
        UndecidedError: There are too many ways to try.
    """
    left = [dict(node.free if free else node.total) for node in nodes]
    allowed = [
        [n for n, node in enumerate(nodes) if matches(node.labels, spec.labels) and holds(left[n], demand)]
        for spec, demand in zip(specs, asked, strict=True)
    ]
    order = sorted(range(len(specs)), key=lambda i: (len(allowed[i]), -sum(asked[i].values())))
    used = [0] * len(nodes)
    placed: dict[int, int] = {}

    def choices(i: int) -> list[int]:
        here = [n for n in allowed[i] if holds(left[n], asked[i]) and not (strategy == STRICT_SPREAD and used[n])]
        return sorted(here, key=lambda n: -used[n] if strategy == "pack" else used[n])[::-1]  # the best last

    def put(i: int, n: int, sign: int) -> None:
        _take(left[n], asked[i], sign)
        used[n] += sign

    untried = [choices(order[0])]
    for _ in range(MOST_STEPS + 2 * len(order)):
        i = order[len(untried) - 1]
        if i in placed:
            put(i, placed.pop(i), -1)
        if untried[-1]:
            placed[i] = untried[-1].pop()
            put(i, placed[i], 1)
            if len(placed) == len(order):
                return [placed[i] for i in range(len(specs))]
            untried.append(choices(order[len(untried)]))
        else:
            untried.pop()
            if not untried:
                return None
    raise UndecidedError


def holds(there: Mapping[str, float], demand: Demand) -> bool:
    """Whether there is as much as a demand asks for."""
    return all(there.get(key, 0.0) >= amount - SLACK for key, amount in demand.items())


def _take(there: dict[str, float], demand: Demand, sign: int) -> None:
    for key, amount in demand.items():
        there[key] = there.get(key, 0.0) - sign * amount


def described(amounts: Mapping[str, float], labels: Mapping[str, str]) -> str:
    """Return ``2 CPU, zone=a``."""
    parts = [f"{amount:g} {key}" for key, amount in amounts.items()]
    return ", ".join([*parts, *(f"{key}={value}" for key, value in labels.items())]) or "nothing"


def describe_nodes(nodes: Sequence[Node], resources: Mapping[str, float], labels: Mapping[str, str]) -> str:
    """Return what each node has of these resources and labels, in one line."""
    lines = []
    for node in nodes[:8]:
        has = {key: node.total.get(key, 0.0) for key in resources}
        called = {key: node.labels.get(key, "?") for key in labels}
        lines.append(f"{node.name} has {described(has, called)}")
    return "; ".join(lines) + (f"; and {len(nodes) - 8} more" if len(nodes) > 8 else "")
