"""Folders of small runs: what lies in them, and their replay."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RunFolder = Callable[..., Path]
SMALL = (
    "cluster=inline", "progress=false", "dataset=bundle", "dataset.batch_size=5", "model.hidden=[4]", "embedding=3",
    "eval_every=2", "model.dropout=0.1",
)  # fmt: skip


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return found


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "rounds.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def repeated(run_folder: RunFolder, folder: Path, algo: str, *overrides: str) -> Path:
    """Replay a run folder and see that everything comes out as it was."""
    again = run_folder(f"{folder.name}-again", f"algo={algo}", "speeds=replay", f"speeds.path={folder}", *overrides)
    assert rows(again) == rows(folder)
    old, new = summary(folder), summary(again)
    same = ("model_digest", "rounds", "sim_time", "time_unit", "sent_bytes", "final")
    assert {key: new[key] for key in same} == {key: old[key] for key in same}
    return again
