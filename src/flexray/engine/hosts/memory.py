"""Memory that a run's processes take, and what a machine has free: plain arithmetic, no Ray."""

from __future__ import annotations

import os
import re
from pathlib import Path

from flexray.core.errors import ResourceError
from flexray.engine.hosts.plan import ClusterPlan

GIB = 2**30
PROCESS_BYTES = int(0.35 * GIB)
"""What a process of a run takes before data and models. Python with PyTorch and Ray has about 0.6 GiB in memory, of
which 0.31 GiB are its own and the rest is shared by all of them; what Ray itself takes is spread over them, too."""
CGROUPS = (
    ("memory.max", "memory.current", "memory.stat", ""),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_"),
)
"""Where Linux tells a container's limit, its use and the kinds of use, and how those lines begin: versions 2 and 1."""


def available_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the bytes that new processes may take here; where there is no telling, all that the machine has."""
    found = [float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))]
    found += [kib * 1024.0 for kib in _numbers(proc / "meminfo", "MemAvailable: *")]
    for limit, used, kinds, prefix in CGROUPS:
        for most, now in zip(_numbers(cgroup / limit), _numbers(cgroup / used), strict=False):
            given_back = sum(_numbers(cgroup / kinds, f"{prefix}(?:in)?active_file "))  # copies of files
            found.append(float(max(0, most - now + given_back)))
    return min(found)


def _numbers(file: Path, before: str = "") -> list[int]:
    """Return the numbers of the lines that begin so; none where there is no such file, or it says ``max``."""
    try:
        text = file.read_text(encoding="ascii")
    except OSError:
        return []
    return [int(number) for number in re.findall(rf"^{before}(\d+)", text, flags=re.MULTILINE)]


def check_memory(plan: ClusterPlan, free_bytes: float, where: str = "are free") -> None:
    """Refuse more processes than memory could hold.

    Args:
        plan: Who lives where.
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
