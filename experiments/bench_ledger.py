"""Measured figures as JSON lines with commit and machine, and the comparison of two such files."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

DRAWS, LIKELY = 2000, (2.5, 97.5)
"""Resamples for the interval of a ratio, and its percentiles."""


@dataclass(frozen=True)
class Figure:
    """What was measured.

    Args:
        name: Of which setting.
        unit: ``ratio`` (more is better), or a cost (less is better).
        values: One per measurement.
    """

    name: str
    unit: str
    values: Sequence[float]


def append(ledger: Path, figure: Figure) -> None:
    """Add a line to a ledger."""
    line = {
        "figure": figure.name, "unit": figure.unit, "median": statistics.median(figure.values),
        "values": [round(value, 4) for value in figure.values], "commit": _commit(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"), "machine": _machine(),
    }  # fmt: skip
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _commit() -> str:
    words = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def _machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    return {"cpu": model, "cpus": os.cpu_count(), "torch": torch.__version__, "python": platform.python_version()}


def compare(old: Path, new: Path) -> int:
    """Print how figures changed; return 1 if one is worse beyond chance, else 0.

    A figure of several lines is all their values together. The interval is that of the ratio of medians, by resampling.
    """
    before, after = _read(old), _read(new)
    table = Table("figure", "old", "new", "new / old", "95 %", "")
    status = 0
    for name in before.keys() & after.keys():
        unit, values = before[name]
        ratio, low, high = _ratio(values, after[name][1])
        worse, better = (high < 1, low > 1) if unit == "ratio" else (low > 1, high < 1)
        status = max(status, int(worse))
        medians = [f"{statistics.median(part):.3g}" for part in (values, after[name][1])]
        verdict = "worse" if worse else "better" if better else "alike"
        table.add_row(name, *medians, f"{ratio:.3f}", f"{low:.3f} to {high:.3f}", verdict)
    Console().print(table)
    return status


def _read(ledger: Path) -> dict[str, tuple[str, list[float]]]:
    found: dict[str, tuple[str, list[float]]] = {}
    for text in ledger.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        found.setdefault(line["figure"], (line["unit"], []))[1].extend(line["values"])
    return found


def _ratio(old: Sequence[float], new: Sequence[float]) -> tuple[float, float, float]:
    """Return the ratio of medians and its interval."""
    draw = np.random.default_rng(0)
    medians = [np.median(draw.choice(values, (DRAWS, len(values))), axis=1) for values in (old, new)]
    low, high = np.percentile(medians[1] / medians[0], LIKELY)
    return statistics.median(new) / statistics.median(old), float(low), float(high)
