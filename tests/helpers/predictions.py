"""Commands and tables of predictions."""

from __future__ import annotations

import csv
from pathlib import Path

INLINE = ("cluster=inline", "progress=false")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
