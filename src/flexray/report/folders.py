"""Finds run folders and reads them; the fault of a damaged one is noted, never raised."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core import runfolder
from flexray.core.costs import TITLES
from flexray.core.errors import DataError, RunFolderError
from flexray.core.runfolder import flatten, inner, natural, parse_list, read_json, read_table, read_yaml
from flexray.report.runs import COMPLETED, DAMAGED, ENDS, UNFINISHED, Evaluations, FloatArray, Run, Series

MARKS = (runfolder.SUMMARY_FILE, runfolder.ROUNDS_FILE, runfolder.CONFIG_YAML)
"""Any of them makes a folder a run folder."""
LARGEST = 1e18
NOTHING = np.empty(0)
REFERENCE = re.compile(r"\$\{([\w.-]+)\}")
MAX_REFERENCES = 10


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Return the run folders among and below ``paths``, each once, in natural order.

    Raises:
        DataError: A path is no folder, or there is no run in it.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            raise DataError(f"{path}: no such folder; expected run folders, or folders of them")
        below = sorted(_below(path), key=lambda p: natural(p.as_posix()))
        if not below:
            raise DataError(f"{path}: no run in it; expected a folder with {MARKS[0]} or {MARKS[1]}, or one above such")
        found.update(dict.fromkeys(p.resolve() for p in below))
    return list(found)


def _below(path: Path) -> Iterable[Path]:
    for folder, subfolders, _ in os.walk(path):
        here = Path(folder)
        if any((here / mark).exists() for mark in MARKS):
            subfolders.clear()
            yield here


def read_runs(folders: list[Path]) -> list[Run]:
    """Read run folders; the fault of a damaged one is in its ``fault``."""
    parent = Path(os.path.commonpath([f.parent for f in folders])) if folders else Path()
    return [read_run(folder, folder.relative_to(parent).as_posix()) for folder in folders]


def read_run(folder: Path, name: str) -> Run:
    """Read one run folder; no content of it raises."""
    run = Run(folder, name, DAMAGED)
    try:
        if (folder / runfolder.HYDRA_FOLDER).is_symlink():
            raise RunFolderError(".hydra: is a link; expected a plain folder of its own")
        config_file = folder / runfolder.CONFIG_YAML
        if config_file.exists():
            flat = flatten(read_yaml(config_file))
            run = replace(run, config={key: _referred(flat[key], flat) for key in flat}, **_chosen(folder))
        summary = read_json(folder / runfolder.SUMMARY_FILE) if (folder / runfolder.SUMMARY_FILE).exists() else None
        if summary is None or _goes_on(folder, summary):
            run = _read_rows(run, UNFINISHED)
            return replace(run, summary=_planned(run))
        run = replace(run, summary=summary)
        status = summary.get("status", COMPLETED)
        if status not in ENDS:
            raise RunFolderError(f"summary.json: status: expected one of {', '.join(ENDS)}, got {status!r}")
        _check_summary(summary)
        run = _read_rows(run, status)
        _check_complete(run)
        return run
    except RunFolderError as error:
        return replace(run, status=DAMAGED, fault=" ".join(str(error).split()))


def _referred(value: Any, config: Mapping[str, Any]) -> Any:
    """Return the value of the key that a value such as ``${adaptive.first}`` refers to; others stay as they are."""
    for _ in range(MAX_REFERENCES):
        found = REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if found is None or found[1] not in config:
            break
        value = config[found[1]]
    return value


def _goes_on(folder: Path, summary: Mapping[str, Any]) -> bool:
    """Whether the run was resumed after it wrote the summary."""
    if (folder / runfolder.CONFIGURATION_FILE).exists() or not (folder / runfolder.ROUNDS_FILE).exists():
        return False
    if "resumed_from" in summary:  # from a version that writes LAST_FILE
        return True
    rows = read_table(folder / runfolder.ROUNDS_FILE, unfinished=True)
    return len(rows.get("round", ())) != summary.get("rounds")


def _read_rows(run: Run, status: str) -> Run:
    """Return the run with its status, rounds and evaluations."""
    series = _series(run.folder / runfolder.ROUNDS_FILE, status == UNFINISHED)
    evals = _evaluations(run.folder / runfolder.EVALS_FILE, series, status == UNFINISHED or not run.learned)
    return replace(run, status=status, series=series, evals=evals)


def _chosen(folder: Path) -> dict[str, Any]:
    """Return the choices and typed keys in Hydra's file."""
    if not (folder / runfolder.HYDRA_YAML).exists():
        return {}
    notes = read_yaml(folder / runfolder.HYDRA_YAML)
    task = inner(notes, "hydra", "overrides").get("task")
    return chosen_and_typed(inner(notes, "hydra", "runtime", "choices"), task if isinstance(task, list) else [])


def chosen_and_typed(choices: Mapping[Any, Any], task: Iterable[Any]) -> dict[str, Any]:
    """Return the fields ``choices`` and ``typed`` of a run, from Hydra's notes of a job."""
    named = {str(k): str(v) for k, v in choices.items() if "/" not in str(k) and v is not None}
    return {"choices": named, "typed": tuple(str(t).partition("=")[0].lstrip("+~") for t in task)}


def _planned(run: Run) -> dict[str, Any]:
    """Return a summary of a run that has none yet."""
    known = run.evals.metrics if run.evals else {}
    chosen = (run.choices.get("clock"), run.choices.get("speeds"))
    usual = next((metric for metric in ("test_top1", "test_mae") if metric in known), "?")
    return {
        "algo": _name(run, "algo"),
        "dataset": _name(run, "dataset"),
        "seed": run.config.get("seed", "?"),
        "target": run.config.get("target"),
        "time_unit": "seconds" if "wall" in chosen or "measured" in chosen else "units",
        "metric": run.config.get("target_metric") or usual,
    }


def _name(run: Run, group: str) -> str:
    """Return a name as in the summary, by the rule of ``flexray.config.overrides.chosen_name``."""
    if (key := f"{group}._target_") in run.typed:
        return str(run.config.get(key)).rpartition(".")[2].lower()
    return run.choices.get(group, "?")


def _check_summary(summary: dict[str, Any]) -> None:
    for key in ("algo", "dataset", "metric"):
        if not isinstance(summary.get(key), str):
            raise RunFolderError(f"summary.json: {key}: expected a text, got {summary.get(key)!r}")
    target = summary.get("target")
    is_number = isinstance(target, (int, float)) and not isinstance(target, bool) and -LARGEST <= target <= LARGEST
    if target is not None and not is_number:
        raise RunFolderError(f"summary.json: target: expected a number, got {str(target)[:60]}")
    if (unit := summary.get("time_unit", "units")) not in ("units", "seconds"):
        raise RunFolderError(f"summary.json: time_unit: expected units or seconds, got {str(unit)[:60]!r}")


def _series(path: Path, unfinished: bool) -> Series:
    if unfinished and not path.exists():
        return Series(NOTHING, NOTHING, NOTHING, [], [])
    table = read_table(path, unfinished)
    number, time, sent = (_numbers(path.name, table, column) for column in ("round", "sim_time", "sent_bytes"))
    lists: dict[str, list[float]] = {}
    tau, lr = (_lists(path.name, table, column, lists) for column in ("tau", "lr"))
    return Series(number, time, np.cumsum(sent), tau, lr, any(table.get("party", ())))


def _evaluations(path: Path, series: Series, may_lack: bool) -> Evaluations:
    table = read_table(path, may_lack) if path.exists() or not may_lack else {}
    if may_lack and not table:
        return Evaluations(NOTHING, NOTHING, NOTHING, {})
    rounds, time = (_numbers(path.name, table, column) for column in ("round", "sim_time"))
    sent = np.concatenate([[0.0], series.sent_bytes_r])[np.searchsorted(series.number_r, rounds, side="right")]
    values = {c: _numbers(path.name, table, c) for c in table if c not in ("round", "epoch", "sim_time")}
    costs = {name: values.pop(name) for name in TITLES if name in values}
    return Evaluations(rounds, time, sent, values, costs)


def _column(file: str, table: dict[str, list[str]], column: str) -> list[str]:
    if column not in table:
        raise RunFolderError(f"{file}: column '{column}' is missing")
    return table[column]


def _numbers(file: str, table: dict[str, list[str]], column: str) -> FloatArray:
    texts = _column(file, table, column)
    try:
        return np.array([float(text) for text in texts], dtype=np.float64)
    except ValueError as error:
        raise RunFolderError(f"{file}: {column}: expected numbers: {error}") from error


def _lists(file: str, table: dict[str, list[str]], column: str, known: dict[str, list[float]]) -> list[list[float]]:
    """Return a column of JSON lists; equal texts share one list."""
    result = []
    for place, text in enumerate(_column(file, table, column)):
        if text not in known:
            known[text] = _list(f"{file}, row {place + 2}: {column}", text)
        result.append(known[text])
        if len(known[text]) != len(result[0]):
            raise RunFolderError(f"{file}, row {place + 2}: {column}: expected {len(result[0])} numbers")
    return result


def _list(where: str, text: str) -> list[float]:
    values = parse_list(text)
    if values is None or not all(type(v) in (int, float) for v in values):
        raise RunFolderError(f"{where}: expected a JSON list of numbers, got {text[:60]!r}")
    return values


def _check_complete(run: Run) -> None:
    """Refuse tables that are shorter than the summary says."""
    rounds = run.summary.get("rounds")
    if not isinstance(rounds, int):
        return
    if run.length != rounds:
        raise RunFolderError(f"rounds.csv: {run.length} rounds, summary.json says {rounds}")
    if run.learned and run.evals is not None and not len(run.evals.round_e):
        raise RunFolderError("evals.csv: has no rows")
