"""What hosts ask of the machine or cluster, and whether it is there: plain arithmetic, no Ray."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flexray.cluster import HostSpec
from flexray.cluster.fit import Node, demands, describe_nodes
from flexray.errors import ResourceError

REACH_TIMEOUT_S = 5.0

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


def check_reachable(address: str) -> None:
    """Refuse a cluster address at which nothing listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in address:
        return  # ``auto``, or a client address, which Ray looks up itself
    try:
        socket.create_connection((host, int(port)), timeout=REACH_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise ResourceError(
            f"cluster.address: cannot use Ray at '{address}': nothing answers there: {error}"
        ) from error


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
    wanted = ", ".join(f"{amount:g} {key}" for key, amount in asked.items())
    by_node = f" ({describe_nodes(nodes, asked, {})})" if len(nodes) > 1 else ""
    found = ", ".join(f"{there.get(key, 0.0):g} {key}" for key in asked)
    return (
        f"cluster: the driver, the server and {len(specs) - 2} party hosts ask for {wanted}, but there are {found}"
        f" {where}{by_node}; lower cluster.cpus_per_party (null shares what there is) or use cluster=packed"
    )
