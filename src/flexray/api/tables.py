"""The tables of a run folder as pandas has them: tidy, with units in the names of columns.

Each reads one file with :mod:`flexray.core.runfolder`, which executes nothing in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flexray.core.errors import RunFolderError
from flexray.core.runfolder import EVALS_FILE, ROUNDS_FILE, TIMELINE_FILE, parse_list, read_json, read_table
from flexray.run.watch.timeline import SCALES

PER_ROUND = ("train_loss", "sent_bytes")
TIMES = ("sim_time", "duration", "waited", "timeout")
BY_PARTICIPANT = {"tau": "local_iterations", "lr": "lr", "utilization": "utilization", "staleness": "staleness"}


def evals_table(folder: Path, unit: str) -> pd.DataFrame:
    """Return ``evals.csv``: a row per evaluation; NaN where a metric was."""
    table = read_table(folder / EVALS_FILE, unfinished=True)
    return pd.DataFrame({_with_unit(name, unit): _numbers(EVALS_FILE, name, table[name]) for name in table})


def rounds_table(folder: Path, unit: str) -> pd.DataFrame:
    """Return what ``rounds.csv`` says of whole rounds: a row for each (VAFL: each turn, with its ``party``)."""
    table = read_table(folder / ROUNDS_FILE, unfinished=True)
    names = [name for name in ("round", *TIMES, *PER_ROUND) if name in table]
    found = {_with_unit(name, unit): _numbers(ROUNDS_FILE, name, table[name]) for name in names}
    party = table.get("party", [])
    return pd.DataFrame({**found, **({"party": party} if any(party) else {})})


def participants_table(folder: Path, names: Sequence[str]) -> pd.DataFrame:
    """Return what ``rounds.csv`` says of participants: a row per round and participant, the server last."""
    table = read_table(folder / ROUNDS_FILE, unfinished=True)
    rounds = _numbers(ROUNDS_FILE, "round", table.get("round", []))
    found: dict[str, Any] = {"round": [r for r in rounds for _ in names], "participant": [*names] * len(rounds)}
    for name, shown in BY_PARTICIPANT.items():
        if any(texts := table.get(name, [])):
            lists = [_list(text) for text in texts]
            found[shown] = [values[k] if k < len(values) else None for values in lists for k in range(len(names))]
    if any(texts := table.get("absent", [])):
        found["absent"] = [name in away for away in map(_list, texts) for name in names]
    return pd.DataFrame(found)


def timeline_table(folder: Path, unit: str) -> pd.DataFrame:
    """Return ``timeline.json``: a row per span of a participant that computed, communicated, waited or was absent."""
    events = read_json(folder / TIMELINE_FILE).get("traceEvents", [])
    scale, _ = SCALES[unit]
    try:
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        rows = [
            (e["args"]["round"], names[e["tid"]], e["name"], e["ts"] / scale, e["dur"] / scale)
            for e in events
            if e["ph"] == "X"
        ]
    except (LookupError, TypeError) as error:
        raise RunFolderError(f"{TIMELINE_FILE}: expected the spans of a run, an event lacks {error}") from error
    return pd.DataFrame(rows, columns=["round", "participant", "activity", f"begin_{unit}", f"duration_{unit}"])


def _with_unit(name: str, unit: str) -> str:
    return f"{name}_{unit}" if name in TIMES else name


def _numbers(file: str, name: str, texts: Sequence[str]) -> Any:
    whole = name in ("round", "sent_bytes")
    try:
        return pd.Series([int(text) if whole else float(text) for text in texts], dtype="int64" if whole else "float64")
    except (ValueError, OverflowError) as error:
        raise RunFolderError(f"{file}: {name}: expected numbers: {error}") from error


def _list(text: str) -> list[Any]:
    values = parse_list(text or "[]")
    if values is None:
        raise RunFolderError(f"{ROUNDS_FILE}: expected a JSON list, got {text[:60]!r}")
    return values
