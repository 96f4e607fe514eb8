"""The files of a run folder: ``rounds.csv``, ``evals.csv``, ``timeline.json`` and the saved model."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from typing_extensions import override

from flexray.core.errors import RunFolderError
from flexray.core.files import check_file, failing
from flexray.core.messages import Ended, EvalRecord, Record, RoundRecord, Started, State
from flexray.core.runfolder import EVALS_FILE, MODEL_FOLDER, ROUNDS_FILE, SUMMARY_FILE
from flexray.run.watch.base import Observer, ObserverState

ROUND_COLUMNS = (
    "round", "sim_time", "duration", "tau", "lr", "train_loss", "sent_bytes", "utilization", "party", "staleness",
    "absent",
)  # fmt: skip
WAITED, TIMEOUT = "waited", "timeout"
"""Further columns: where parties may wait for slower ones, and where rounds have timeouts of their own."""


def discard(folder: Path, events: Sequence[Path] = ()) -> None:
    """Delete summary, model and ``events`` of an earlier run, lest they pass for those of the run that begins."""
    try:
        (folder / SUMMARY_FILE).unlink(missing_ok=True)
        for path in events:
            path.unlink(missing_ok=True)
        if (folder / MODEL_FOLDER).exists():
            shutil.rmtree(folder / MODEL_FOLDER)
    except OSError as error:
        raise RunFolderError(f"{error.filename}: cannot be deleted: {error.strerror}") from error


def open_new(path: Path, goes_on: bool = False) -> TextIO:
    """Open a file of the run folder for writing; a run that goes on finds it as it was."""
    with failing(f"{path}: cannot be written", RunFolderError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("r+" if goes_on and path.exists() else "w", newline="", encoding="utf-8")


def end_of(file: TextIO) -> int:
    """Return the length of a file in bytes, with all that was written."""
    file.flush()
    return file.tell()


def cut(file: TextIO, length: int) -> None:
    """Cut a file to the length that it had, and write on there."""
    file.flush()
    file.seek(length)
    file.truncate()


class TableObserver(Observer):
    """Writes ``rounds.csv`` and ``evals.csv``, a row at a time.

    Args:
        folder: The run folder.
        goes_on: Write on in the files that are there, from where :meth:`load` says.
        waits: Parties may wait for slower ones: say how long they did.
        costs: Returns what the run has cost until a time, for columns of ``evals.csv``.
        timeouts: Rounds have timeouts of their own: say which.
    """

    def __init__(
        self,
        folder: Path,
        goes_on: bool = False,
        waits: bool = False,
        costs: Callable[[float], Mapping[str, float]] | None = None,
        timeouts: bool = False,
    ) -> None:
        self._waits = waits
        self._timeouts = timeouts
        self._costs = costs
        self._rounds_file = open_new(folder / ROUNDS_FILE, goes_on)
        self._evals_file = open_new(folder / EVALS_FILE, goes_on)
        self._evals = csv.writer(self._evals_file, lineterminator="\n")
        if not goes_on:
            further = (*([WAITED] if waits else []), *([TIMEOUT] if timeouts else []))
            self._rounds_file.write(",".join((*ROUND_COLUMNS, *further)) + "\n")
        self._metrics: tuple[str, ...] = ()
        self._names: tuple[str, ...] = ()
        self._before: dict[str, tuple[tuple[float, ...], str]] = {}

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            self._names = record.names
        elif isinstance(record, RoundRecord):
            self._rounds_file.write(",".join(map(_field, self._round_row(record))) + "\n")
        elif isinstance(record, EvalRecord):
            self._write_eval(record)

    def _round_row(self, record: RoundRecord) -> list[Any]:
        return [
            record.round, record.sim_time, record.duration, self._listed("tau", record.tau),
            self._listed("lr", record.lr), record.train_loss, record.sent_bytes,
            self._listed("utilization", record.utilization),
            "" if record.party is None else self._names[record.party],
            "" if record.staleness is None else json.dumps(record.staleness),
            "" if record.absent is None else json.dumps([self._names[k] for k in record.absent]),
            *([record.waited_units] if self._waits else []),
            *([record.timeout_units] if self._timeouts else []),
        ]  # fmt: skip

    def _listed(self, column: str, values: tuple[float, ...]) -> str:
        """Return a list as JSON; most are as they were in the round before."""
        before, text = self._before.get(column, ((), "[]"))
        if values != before:
            text = json.dumps(values)
            self._before[column] = (values, text)
        return text

    def _write_eval(self, record: EvalRecord) -> None:
        costs = self._costs(record.sim_time) if self._costs else {}
        if not self._metrics:
            self._metrics = tuple(sorted(record.metrics))
            self._evals.writerow(("round", "epoch", "sim_time", *self._metrics, *costs))
        values = [record.metrics[m] for m in self._metrics]
        self._evals.writerow((record.round, record.epoch, record.sim_time, *values, *costs.values()))
        self._evals_file.flush()
        self._rounds_file.flush()

    @override
    def save(self) -> ObserverState:
        return {
            "rounds": end_of(self._rounds_file), "evals": end_of(self._evals_file), "metrics": list(self._metrics),
        }  # fmt: skip

    @override
    def load(self, state: ObserverState) -> None:
        cut(self._rounds_file, state["rounds"])
        cut(self._evals_file, state["evals"])
        self._metrics = tuple(state["metrics"])

    @override
    def close(self) -> None:
        self._rounds_file.close()
        self._evals_file.close()


def _field(value: Any) -> str:
    """Return a value as ``csv`` writes it, which takes 0.1 s for the lists of 100,000 parties, in place of 5 ms."""
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


class ModelObserver(Observer):
    """Saves the final model, one safetensors file per participant, under ``checkpoints/final``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / MODEL_FOLDER

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Ended):
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in self._folder.glob("*.tmp"):
                path.unlink()  # half a file of a run that was killed here
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

    check_file(path, "the saved model of a finished run", RunFolderError)
    try:
        state: State = load_file(path)
    except (SafetensorError, OSError) as error:
        raise RunFolderError(f"{path}: cannot be read: {error}") from error
    return state
