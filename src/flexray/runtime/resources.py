"""What hosts ask of the machine or cluster, and whether it is there: plain arithmetic, no Ray."""

from __future__ import annotations

import fcntl
import logging
import math
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flexray.cluster import HostSpec
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


def check_total(specs: Sequence[HostSpec], total: dict[str, float], only: Sequence[str] = ()) -> None:
    """Refuse demands that the whole cluster could not meet; ``only`` limits the check to some resources."""
    asked = sum_of(demands(specs, total.get("CPU", 0.0)))
    short = {
        key: amount
        for key, amount in asked.items()
        if amount > total.get(key, 0.0) + 1e-9 and (not only or key in only)
    }
    if short:
        raise ResourceError(shortage(specs, short, total))


def demands(specs: Sequence[HostSpec], free_cpus: float) -> list[dict[str, float]]:
    """Return the resources of each host; those without a CPU demand share equally what the others leave, at most 1."""
    open_places = sum(spec.cpus is None for spec in specs)
    left = max(0.0, free_cpus - sum(spec.cpus or 0.0 for spec in specs))
    share = min(1.0, math.floor(left / open_places * 1000) / 1000) if open_places else 0.0
    result = []
    for spec in specs:
        wanted = {"CPU": share if spec.cpus is None else spec.cpus, "GPU": spec.gpus, **spec.resources}
        result.append({key: amount for key, amount in wanted.items() if amount > 0})
    return result


def sum_of(bundles: Sequence[dict[str, float]]) -> dict[str, float]:
    """Add resources up."""
    total: dict[str, float] = {}
    for bundle in bundles:
        for key, amount in bundle.items():
            total[key] = total.get(key, 0.0) + amount
    return total


def shortage(
    specs: Sequence[HostSpec], asked: dict[str, float], there: dict[str, float], where: str = "in the cluster"
) -> str:
    """Return one line that says what was asked for and what there is."""
    wanted = ", ".join(f"{amount:g} {key}" for key, amount in asked.items())
    found = ", ".join(f"{there.get(key, 0.0):g} {key}" for key in asked)
    return (
        f"cluster: the driver, the server and {len(specs) - 2} party hosts ask for {wanted}, but there are {found}"
        f" {where}; lower cluster.cpus_per_party (null shares what there is) or use cluster=packed"
    )
