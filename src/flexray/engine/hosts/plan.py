"""Which host holds which participants, and what each host asks of the machine: plain data, no Ray.

Processes are named after the dataset and the participants in them: ``flexray-digits-party-2-upper_right``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flexray.engine.driver.seam import Placement

STRATEGIES = PACK, SPREAD, STRICT_SPREAD = "pack", "spread", "strict_spread"


@dataclass(frozen=True)
class HostSpec:
    """One host, a Ray actor.

    Args:
        name: Readable, unique in a run.
        cpus: CPUs it reserves; None takes an equal share of what is left.
        gpus: GPUs or a share of one.
        resources: Custom Ray resources.
        labels: Of the nodes that it may live on, as Ray's label selectors.
    """

    name: str
    cpus: float | None = None
    gpus: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterPlan:
    """What a run asks of the cluster.

    Args:
        kind: ``inline``, ``local``, ``packed`` or ``ray``.
        placement: The host of every participant.
        hosts: The hosts of the parties and, last, the server's.
        driver: The driver's host.
        address: Of a running cluster, for ``ray``.
        num_cpus: CPUs that a local Ray is started with; None: all of the machine.
        threads: Threads of each participant.
        gpus: What an ``inline`` run, which has no hosts, was given of GPUs.
        strategy: How hosts are put on nodes, one of :data:`STRATEGIES`.
        wait_s: Longest wait for resources that others have reserved.
    """

    kind: str
    placement: Placement
    hosts: tuple[HostSpec, ...]
    driver: HostSpec
    address: str = "auto"
    num_cpus: int | None = None
    threads: int = 1
    gpus: float = 0.0
    strategy: str = PACK
    wait_s: float = 8.0


def together(num_parties: int) -> Placement:
    """Put all parties in one group, and the server beside them."""
    return Placement(groups=(tuple(range(num_parties)),), group_hosts=(0,), server_host=0)


def place(num_parties: int, parties_per_actor: int) -> Placement:
    """Put ``parties_per_actor`` neighbouring parties in each host, and the server in one more."""
    starts = range(0, num_parties, parties_per_actor)
    groups = tuple(tuple(range(start, min(start + parties_per_actor, num_parties))) for start in starts)
    return Placement(groups, tuple(range(len(groups))), len(groups))


def host_name(dataset: str, group: Sequence[int], names: Sequence[str]) -> str:
    """Return the name of the host of these parties (0-based)."""
    if len(group) == 1:
        return f"flexray-{dataset}-party-{group[0] + 1}-{names[group[0]]}"
    return f"flexray-{dataset}-parties-{group[0] + 1}-to-{group[-1] + 1}"
