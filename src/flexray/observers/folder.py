"""The files of a run folder: ``rounds.csv``, ``evals.csv``, ``timeline.json`` and the saved model (SPEC 11)."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from flexray.errors import RunFolderError
from flexray.messages import Ended, EvalRecord, Record, RoundRecord, Started, State
from flexray.observers.base import Observer

ROUND_COLUMNS = (
    "round", "sim_time", "duration", "tau", "lr", "train_loss", "sent_bytes", "utilization", "party", "staleness",
)  # fmt: skip
MODEL_FOLDER = Path("checkpoints") / "final"


def open_new(path: Path) -> TextIO:
    """Open a file of the run folder for writing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w", newline="", encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be written: {error.strerror}") from error


class TableObserver(Observer):
    """Writes ``rounds.csv`` and ``evals.csv``, a row at a time."""

    def __init__(self, folder: Path) -> None:
        self._rounds_file = open_new(folder / "rounds.csv")
        self._evals_file = open_new(folder / "evals.csv")
        self._rounds = csv.writer(self._rounds_file, lineterminator="\n")
        self._evals = csv.writer(self._evals_file, lineterminator="\n")
        self._rounds.writerow(ROUND_COLUMNS)
        self._metrics: tuple[str, ...] = ()
        self._names: tuple[str, ...] = ()

    def on(self, record: Record) -> None:  # noqa: D102
        if isinstance(record, Started):
            self._names = record.names
        elif isinstance(record, RoundRecord):
            self._rounds.writerow(self._round_row(record))
        elif isinstance(record, EvalRecord):
            self._write_eval(record)

    def _round_row(self, record: RoundRecord) -> list[Any]:
        return [
            record.round, record.sim_time, record.duration, json.dumps(record.tau), json.dumps(record.lr),
            record.train_loss, record.sent_bytes, json.dumps(record.utilization),
            "" if record.party is None else self._names[record.party],
            "" if record.staleness is None else json.dumps(record.staleness),
        ]  # fmt: skip

    def _write_eval(self, record: EvalRecord) -> None:
        if not self._metrics:
            self._metrics = tuple(sorted(record.metrics))
            self._evals.writerow(("round", "epoch", "sim_time", *self._metrics))
        self._evals.writerow((record.round, record.epoch, record.sim_time, *(record.metrics[m] for m in self._metrics)))
        self._evals_file.flush()
        self._rounds_file.flush()

    def close(self) -> None:  # noqa: D102
        self._rounds_file.close()
        self._evals_file.close()


class ModelObserver(Observer):
    """Saves the final model, one safetensors file per participant, under ``checkpoints/final``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / MODEL_FOLDER

    def on(self, record: Record) -> None:  # noqa: D102
        if isinstance(record, Ended):
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, state in record.states.items():
                save_state(self._folder / f"{name}.safetensors", state)


def save_state(path: Path, state: State) -> None:
    """Write one participant's parameters and buffers to a temporary name, then rename it."""
    from safetensors.numpy import save_file  # imported late: only runs that end need it

    temporary = path.with_suffix(".tmp")
    save_file({key: np.ascontiguousarray(value) for key, value in state.items()}, temporary)
    os.replace(temporary, path)


def load_state(path: Path) -> State:
    """Read what :func:`save_state` wrote; no pickle is involved."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        state: State = load_file(path)
    except FileNotFoundError as error:
        raise RunFolderError(f"{path}: no such file; expected the saved model of a finished run") from error
    except (SafetensorError, OSError) as error:
        raise RunFolderError(f"{path}: cannot be read: {error}") from error
    return state
