"""The nodes of the cluster that this process joined, and places on them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence

import ray
from ray._private.state import available_resources_per_node  # no public function returns it by node
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group

from flexray.core.errors import ResourceError
from flexray.engine.hosts.fit import Demand, Node, UndecidedError, assign, share_out
from flexray.engine.hosts.plan import ClusterPlan, HostSpec
from flexray.engine.hosts.resources import check_nodes, shortage, sum_of

RETRY_S = 2.0
"""Seconds after which shares and places are computed anew: another run may have taken some."""
SETTLE_S = 1.0
"""Seconds until Ray lists freed resources as free."""
GROWTH_S = 30.0
"""A longer wait is one for an autoscaler, too."""
NOTHING = {"memory": 1.0}
"""A process without demands reserves one byte, since no bundle of a group may be empty."""

NODE_ID = "ray.io/node-id"
HIDDEN = re.compile("^(node:|accelerator_type:)|_group_")
"""Resources that Ray makes itself."""

log = logging.getLogger("flexray")


def cluster_nodes() -> list[Node]:
    """Return the nodes that are up, the head first."""
    free = available_resources_per_node()
    alive = [node for node in ray.nodes() if node["Alive"]]
    alive.sort(key=lambda node: ("node:__internal_head__" not in node["Resources"], node["NodeManagerAddress"]))
    return [
        Node(
            name=f"{node['NodeManagerAddress']} ({node['NodeID'][:6]})",
            total=_shown(node["Resources"]),
            free=_shown(free.get(node["NodeID"], {})),
            labels=dict(node.get("Labels") or {}),
        )
        for node in alive
    ]


def alive_nodes() -> frozenset[str]:
    """Return the IDs of the nodes that are up."""
    return frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"])


def _shown(resources: dict[str, float]) -> dict[str, float]:
    return {key: amount for key, amount in resources.items() if not HIDDEN.search(key)}


def reserve(plan: ClusterPlan, specs: Sequence[HostSpec]) -> tuple[PlacementGroup, list[Demand]]:
    """Reserve what all hosts ask for at once; return the group and what each got.

    Raises:
        ResourceError: It is not free in time: one line with what was asked and what there is.
    """
    nodes = cluster_nodes()
    deadline_s = time.monotonic() + plan.wait_s
    shared = any(spec.cpus is None for spec in specs)
    if shared and not any(node.free.get("CPU") for node in nodes):  # or they were ours and are only just free
        time.sleep(SETTLE_S)
        nodes = cluster_nodes()
    while True:
        bundles = [bundle or NOTHING for bundle in share_out(specs, nodes, plan.strategy)]
        left_s = max(1.0, deadline_s - time.monotonic())
        pinned = _pinned(plan, specs, bundles, nodes)
        selectors = pinned or [dict(spec.labels) for spec in specs]
        group = _group(plan, bundles, selectors, min(RETRY_S, left_s) if shared or pinned else left_s)
        if group is not None:
            if shared and not any("CPU" in bundle for bundle in bundles):
                log.warning("no CPU is free: the run shares those of others without reserving any")
            if len(nodes) > 1:
                log.info("placed on %s", _places(group, specs, nodes))
            return group, bundles
        nodes = cluster_nodes()
        if time.monotonic() >= deadline_s:
            asked, free = sum_of(bundles), sum_of(node.free for node in nodes)
            line = shortage(specs, asked, free, "free on one node or another", nodes)
            raise ResourceError(f"{line}; cluster.wait=SECONDS waits longer for others to end")


def _places(group: PlacementGroup, specs: Sequence[HostSpec], nodes: Sequence[Node]) -> str:
    """Return ``NODE: HOST, HOST; NODE: HOST``."""
    found = placement_group_table(group)["bundles_to_node_id"]
    by_node: dict[str, list[str]] = {}
    for place, spec in enumerate(specs):
        by_node.setdefault(found[place], []).append(spec.name)
    names = {node.labels.get(NODE_ID, ""): node.name for node in nodes}
    return "; ".join(f"{names.get(node, node)}: {', '.join(hosts)}" for node, hosts in by_node.items())


def check_plan(plan: ClusterPlan) -> None:
    """Refuse what could not fit even if nothing else ran, unless the wait is long enough for the cluster to grow."""
    try:
        check_nodes(plan, cluster_nodes())
    except ResourceError as error:
        if plan.wait_s <= GROWTH_S:
            raise
        log.warning("%s; waiting up to %g s for the cluster to grow", error, plan.wait_s)


def _pinned(
    plan: ClusterPlan, specs: Sequence[HostSpec], bundles: Sequence[Demand], nodes: Sequence[Node]
) -> list[dict[str, str]] | None:
    """Return a selector of one node for each host: Ray itself places one after the other and may get stuck.

    None if there is one node only, or no way is known now.
    """
    try:
        places = assign(specs, bundles, nodes, plan.strategy, free=True) if len(nodes) > 1 else None
    except UndecidedError:
        return None
    return None if places is None else [{NODE_ID: nodes[place].labels[NODE_ID]} for place in places]


def _group(
    plan: ClusterPlan, bundles: Sequence[Demand], selectors: list[dict[str, str]], patience_s: float
) -> PlacementGroup | None:
    """Make the placement group; return it if it found its place in time."""
    group = placement_group(
        list(bundles), strategy=plan.strategy.upper(), bundle_label_selector=selectors if any(selectors) else None
    )
    if group.wait(timeout_seconds=patience_s):
        return group
    remove_placement_group(group)
    return None
