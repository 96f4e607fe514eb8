"""``python -m flexray.cluster check [key=value ...]``: the nodes of a cluster, and whether a run fits them.

The keys are those of ``flexray.run``; ``cluster=ray`` unless another choice is given.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from flexray.config.compose import build_typed
from flexray.config.typed import key_of
from flexray.core.commands import command
from flexray.core.errors import ConfigError, ResourceError
from flexray.core.memory import available_bytes
from flexray.engine.hosts.fit import Demand, Node, UndecidedError, assign, described, share_out
from flexray.engine.hosts.plan import ClusterPlan, HostSpec
from flexray.engine.hosts.resources import GIB, MEMORY, check_memory, check_nodes

USAGE = "usage: python -m flexray.cluster check [key=value ...]"


@command()
def main(arguments: Sequence[str]) -> int:
    """Run the command line; return 0 if the run fits, 2 if not or for a mistake."""
    if {"-h", "--help"} & set(arguments):
        print(f"{USAGE}\n\n{__doc__}")
        return 0
    if arguments[:1] != ["check"]:
        raise ConfigError(f"expected a command, got {' '.join(arguments[:1]) or 'none'}; {USAGE}")
    plan = read_plan(list(arguments[1:]))
    nodes = _nodes(plan)
    Console().print(node_table(nodes))
    print(check(plan, nodes))
    return 0


def read_plan(overrides: list[str]) -> ClusterPlan:
    """Return what the configuration asks of the cluster."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if "cluster" not in map(key_of, overrides):
        overrides = ["cluster=ray", *overrides]
    return build_typed(overrides).cluster


def _nodes(plan: ClusterPlan) -> list[Node]:
    """Return the nodes of the cluster to join, or this machine, on which the run would start its own Ray."""
    if plan.kind != "ray":
        import torch

        cpus = float(plan.num_cpus or os.cpu_count() or 1)
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        total = {"CPU": cpus, "GPU": float(torch.cuda.device_count()), "memory": memory}
        return [Node("this machine", total, {**total, "memory": available_bytes()})]
    from flexray.engine.hosts.ray import RayCluster
    from flexray.engine.hosts.ray.nodes import cluster_nodes

    cluster = RayCluster()
    try:
        cluster.connect(plan)
        return cluster_nodes()
    finally:
        cluster.close()


def check(plan: ClusterPlan, nodes: Sequence[Node]) -> str:
    """Print what each process asks for and a node that has it; return one line that says that all fit.

    Raises:
        ResourceError: They do not fit.
    """
    if plan.kind == "inline":
        return "fits: cluster=inline is one process and reserves nothing"
    specs = (plan.driver, *plan.hosts)
    if plan.kind != "ray":
        check_memory(plan, nodes[0].free["memory"])
    check_nodes(plan, nodes)
    asked = share_out(specs, nodes, plan.strategy)
    try:
        places = assign(specs, asked, nodes, plan.strategy, free=True)
    except UndecidedError:
        raise ConfigError(
            "cluster: too many ways to place the processes; Ray will tell at the start of a run"
        ) from None
    Console().print(host_table(specs, asked, nodes, places))
    if places is None:
        raise ResourceError("cluster: fits the nodes, but not what is free of them now; wait with cluster.wait=SECONDS")
    used = len(set(places))
    return f"fits: {len(specs)} processes on {used} of {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}"


def node_table(nodes: Sequence[Node]) -> Table:
    """Return a row per node: free and total resources, and its labels."""
    table = Table(title="nodes (free of total)")
    for column in ("node", "CPU", "GPU", "memory GiB", "object store GiB", "custom resources", "labels"):
        table.add_column(column, overflow="fold")
    for node in nodes:
        own = sorted(set(node.total) - {"CPU", "GPU", *MEMORY})
        labels = {key: value for key, value in node.labels.items() if key != "ray.io/node-id"}
        table.add_row(
            node.name,
            *(_free_of(node, key) for key in ("CPU", "GPU")),
            *(_free_of(node, key, GIB) for key in MEMORY),
            ", ".join(f"{_free_of(node, key)} {key}" for key in own),
            described({}, labels) if labels else "",
        )
    return table


def _free_of(node: Node, key: str, unit: float = 1.0) -> str:
    return f"{node.free.get(key, 0.0) / unit:.4g} of {node.total.get(key, 0.0) / unit:.4g}"


def host_table(
    specs: Sequence[HostSpec], asked: Sequence[Demand], nodes: Sequence[Node], places: Sequence[int] | None
) -> Table:
    """Return a row per process: what it asks for, and a node that has it; Ray may choose another such node."""
    table = Table(title="processes")
    for column in ("process", "asks for", "node"):
        table.add_column(column, overflow="fold")
    for place, (spec, demand) in enumerate(zip(specs, asked, strict=True)):
        table.add_row(spec.name, described(demand, spec.labels), nodes[places[place]].name if places else "--")
    return table
