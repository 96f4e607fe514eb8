"""How much memory a machine has free."""

from __future__ import annotations

import os
import re
from pathlib import Path

CGROUPS = (
    ("memory.max", "memory.current", "memory.stat", ""),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_"),
)
"""Files of a container's limit, its use and its kinds of use, and the prefix of their lines: cgroups 2 and 1."""


def available_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the bytes that new processes may take; all of the machine's where Linux does not say."""
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
