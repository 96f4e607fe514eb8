"""What hosts ask of the machine or cluster, and whether it is there: plain arithmetic, no Ray."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flexray.core.errors import ConfigError, ResourceError
from flexray.engine.hosts.fit import Node, check_fit, demands, describe_nodes, described
from flexray.engine.hosts.plan import ClusterPlan, HostSpec

MEMORY = ("memory", "object_store_memory")
"""The resources of a node that are bytes."""
AUTO, LOCAL = "auto", "local"
"""Where a cluster is: where ``RAY_ADDRESS`` or Ray itself says; none but one that is started on this machine."""
HOST_PORT = re.compile(r"(?:[\w.-]+|\[[\w:.%]+\]):(\d{1,5})", re.ASCII)
"""A name, an address or an IPv6 address in brackets, and a port."""

GIB = 2**30
PROCESS_BYTES = int(0.35 * GIB)
"""What a process of a run takes before data and models. Python with PyTorch and Ray has about 0.6 GiB in memory, of
which 0.31 GiB are its own and the rest is shared by all of them; what Ray itself takes is spread over them, too."""

log = logging.getLogger("flexray")


class MachineLock:
    """Lets runs that each start a Ray of their own on one machine know of each other."""

    def __init__(self) -> None:
        self._file: Any = None

    def announce(self) -> None:
        """Say so if another run is already using this machine."""
        if self._file is not None:
            return
        self._file = (Path(tempfile.gettempdir()) / f"flexray-{os.getuid()}.lock").open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.warning("another flexray run shares this machine: wall times suffer, simulated times do not")

    def release(self) -> None:
        """Leave the machine to others."""
        if self._file is not None:
            self._file.close()
            self._file = None


def check_address(key: str, address: Any) -> str:
    """Return the address of a running cluster if it is written as one, or refuse it by the key that gave it."""
    if address == AUTO:
        return AUTO
    found = HOST_PORT.fullmatch(str(address))
    if found is None or not 0 < int(found[1]) < 2**16:
        client = "; ray:// is for Ray's client, which cannot start a run" if str(address).startswith("ray://") else ""
        expected = "auto or HOST:PORT of the cluster's head node, as in 10.0.0.1:6379"
        raise ConfigError(f"{key}: expected {expected}, got '{address}'{client}")
    return str(address)


def running_ray(key: str, address: Any) -> str | None:
    """Return the address of the running cluster to join; None if Ray is to be started on this machine.

    ``auto`` is the cluster of ``RAY_ADDRESS``, or else the one that ``ray start`` started or joined here; the Ray that
    another run started for itself is never joined.

    Args:
        key: What gave the address.
        address: ``auto``, ``local`` or ``HOST:PORT``.
    """
    if address == LOCAL:
        return None
    if address != AUTO:
        return check_address(key, address)
    if os.environ.get("RAY_ADDRESS"):
        return AUTO
    folder = os.environ.get("RAY_TMPDIR") or (sys.platform == "linux" and os.environ.get("TMPDIR")) or "/tmp"  # noqa: S108
    try:
        return Path(folder, "ray", "ray_current_cluster").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def check_nodes(plan: ClusterPlan, nodes: Sequence[Node]) -> None:
    """Refuse a run that could not live on these nodes even if nothing else ran there.

    Raises:
        ResourceError: One line with what was asked and what there is.
    """
    total, specs = sum_of(node.total for node in nodes), (plan.driver, *plan.hosts)
    memory = sum(total.get(key, 0.0) for key in MEMORY)
    if plan.kind == "ray" and memory:
        check_memory(plan, memory, "are in the cluster")
    check_total(specs, total, nodes=nodes)
    check_fit(specs, nodes, plan.strategy)


def check_total(
    specs: Sequence[HostSpec], total: dict[str, float], only: Sequence[str] = (), nodes: Sequence[Node] = ()
) -> None:
    """Refuse demands that the whole cluster could not meet; ``only`` limits the check to some resources."""
    asked = sum_of(demands(specs, total.get("CPU", 0.0)))
    short = {
        key: amount
        for key, amount in asked.items()
        if amount > total.get(key, 0.0) + 1e-9 and (not only or key in only)
    }
    if short:
        raise ResourceError(shortage(specs, short, total, nodes=nodes))


def sum_of(bundles: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Add resources up."""
    total: dict[str, float] = {}
    for bundle in bundles:
        for key, amount in bundle.items():
            total[key] = total.get(key, 0.0) + amount
    return total


def shortage(
    specs: Sequence[HostSpec],
    asked: dict[str, float],
    there: dict[str, float],
    where: str = "in the cluster",
    nodes: Sequence[Node] = (),
) -> str:
    """Return one line that says what was asked for and what there is."""
    by_node = f" ({describe_nodes(nodes, asked, {})})" if len(nodes) > 1 else ""
    found = described({key: there.get(key, 0.0) for key in asked}, {})
    return (
        f"cluster: the driver, the server and {len(specs) - 2} party hosts ask for {described(asked, {})},"
        f" but there are {found} {where}{by_node}; lower cluster.cpus_per_party (null shares what there is) or use"
        " cluster=packed"
    )


def check_memory(plan: ClusterPlan, free_bytes: float, where: str = "are free") -> None:
    """Refuse more processes than memory could hold.

    Args:
        plan: The hosts and their parties.
        free_bytes: What there is for them.
        where: Ends the sentence that says how much there is.

    Raises:
        ResourceError: One line with what they would take, what there is, and how few processes would fit.
    """
    hosts = len(plan.hosts) + 1
    if hosts * PROCESS_BYTES <= free_bytes:
        return
    parties = sum(map(len, plan.placement.groups))
    room = int(free_bytes // PROCESS_BYTES) - 2
    if room < 1:
        how = "use cluster=inline, which is one process"
    else:
        how = f"use cluster=packed, or cluster.parties_per_actor={-(-parties // room)} to put so many into a process"
    raise ResourceError(
        f"cluster: {hosts} processes (the driver, the server and {hosts - 2} party hosts) take about"
        f" {hosts * PROCESS_BYTES / GIB:.3g} GiB of memory, {PROCESS_BYTES / GIB:.2g} GiB each before data and models,"
        f" but {free_bytes / GIB:.3g} GiB {where}; {how}"
    )
