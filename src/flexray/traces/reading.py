"""Traces, the CPU utilization of machines over time: found by name or path, read and checked.

A value that is missing, negative or above 1, or a time that is out of step, is refused with its file, machine and row;
``python -m flexray.traces import`` repairs them.

Shapes: m = machines, t = samples.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flexray.core.errors import DataError, near_match
from flexray.core.files import check_file, shipped_folder
from flexray.traces.files import (
    TIMES,
    FloatArray,
    LongTrace,
    MatrixTrace,
    Rows,
    TraceFile,
    WideTrace,
    csv_header,
    is_long,
)
from flexray.traces.parquet import ParquetTrace

TRACE_SUFFIXES = (".parquet", ".csv", ".npy")
FEW = 20
"""Most machine names that a message lists."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Utilizations of machines at equal steps from time 0.

    Args:
        machines: Names, in the order of the rows of ``cpu_mt``.
        step_s: Seconds that one sample lasts.
        cpu_mt: Utilizations in [0, 1] as float64, read-only.
        synthetic: Whether the values were generated.
        source: Origin of the values, for logs.
    """

    machines: tuple[str, ...]
    step_s: float
    cpu_mt: FloatArray
    synthetic: bool
    source: str


def read_trace(path: str | Path, machines: Sequence[str] | None = None, factors: bool = False) -> Trace:
    """Read and check the named machines of a trace, or all of them.

    Args:
        path: A file (``.parquet``, ``.csv`` in the forms ``wide`` or ``long``, ``.npy`` of machines x time), or the
            bare name of a trace that comes with flexray, such as ``synthetic64``.
        machines: Names, in the order wanted; a name may occur twice.
        factors: Its values are numbers above 0 that something is multiplied by; else utilizations.

    Raises:
        DataError: The file or a machine does not exist, or a value cannot be used as it is.
    """
    file = trace_info(path)
    machines = [machines] if isinstance(machines, str) else machines
    names = tuple(file.machines if machines is None else map(str, machines))
    for name in names:
        if name not in file.places:
            choices = near_match(name, file.machines, list_all=len(file.machines) <= FEW)
            raise DataError(f"{file.path}: no machine '{name}' among its {len(file.machines)}{choices}")
    if not names:
        raise DataError(f"{file.path}: expected at least one machine, got none")
    lines: dict[str, FloatArray] = {}
    grid: tuple[int, float] | None = None
    for name, rows in file.rows(dict.fromkeys(names)):
        grid = _check_times(file, name, rows, grid)
        (_check_factors if factors else _check_values)(file, name, rows)
        lines[name] = rows.cpu_t
    cpu_mt = np.stack([lines[name] for name in names])
    cpu_mt.setflags(write=False)
    step_s = file.step_s if grid is None or grid[0] == 1 else grid[1]
    return Trace(names, step_s, cpu_mt, file.synthetic, file.source)


def trace_info(path: str | Path) -> TraceFile:
    """Return a trace's reader, which knows names, step and length; see :func:`read_trace` for ``path``."""
    return open_trace(find_trace(path))


def shipped_traces() -> dict[str, Path]:
    """Return the traces that come with flexray, by bare name."""
    files = sorted(shipped_folder("traces", "traces_data").glob("*"))
    return {path.stem: path for path in files if path.suffix in TRACE_SUFFIXES}


def find_trace(path: str | Path) -> Path:
    """Return the file that a path or the bare name of a shipped trace stands for."""
    shipped = shipped_traces()
    if str(path) in shipped:
        return shipped[str(path)]
    given = Path(path)
    try:
        os.stat(given)
    except (FileNotFoundError, NotADirectoryError):
        hint = near_match(str(path), shipped) if given.name == str(path) and given.suffix not in TRACE_SUFFIXES else ""
        raise DataError(f"{path}: no such trace file{hint}") from None
    except (OSError, ValueError):
        pass  # check_file names the reason
    check_file(given, "a trace file")
    return given


def open_trace(path: Path) -> TraceFile:
    """Return the file's reader, by its suffix and, for CSV, its header."""
    if path.suffix == ".parquet":
        return ParquetTrace(path)
    if path.suffix == ".npy":
        return MatrixTrace(path)
    if path.suffix != ".csv":
        raise DataError(f"{path}: expected a .parquet, .csv or .npy file; other formats have to be imported")
    header = csv_header(path)
    if is_long(header):
        return LongTrace(path, header)
    if len(header) > 1 and header[0] in TIMES:
        return WideTrace(path, header)
    expected = "'machine,time,cpu', or 'time' and one column per machine"
    raise DataError(f"{path}: expected the header {expected}, got '{','.join(header)[:60]}'")


def _check_times(file: TraceFile, name: str, rows: Rows, grid: tuple[int, float] | None) -> tuple[int, float]:
    """Refuse times other than 0, step, 2 step, ..., or than those of other machines; return length and step."""
    time_t = rows.time_t
    if time_t[0] != 0:
        raise _fault(file, name, rows, 0, f"time {time_t[0]:g}; expected the first time to be 0")
    steps_t = np.diff(time_t)
    unsorted = np.flatnonzero(steps_t <= 0)
    if unsorted.size:
        t = int(unsorted[0]) + 1
        raise _fault(file, name, rows, t, f"time {time_t[t]:g} after {time_t[t - 1]:g}; expected sorted times")
    step_s = float(steps_t[0]) if steps_t.size else file.step_s
    if len(time_t) > 1 and file.declared_step_s not in (None, step_s):
        raise _fault(file, name, rows, 1, f"a step of {step_s:g} s; the file says {file.declared_step_s:g} s")
    unequal = np.flatnonzero(steps_t != step_s)
    if unequal.size:
        t = int(unequal[0]) + 1
        raise _fault(file, name, rows, t, f"a step of {steps_t[t - 1]:g} s; expected {step_s:g} s as before (a gap?)")
    if grid is not None and grid != (len(time_t), step_s):
        what = f"{len(time_t)} samples, {step_s:g} s apart; expected {grid[0]} samples, {grid[1]:g} s apart"
        raise _fault(file, name, rows, len(time_t) - 1, f"{what}, as the other machines have")
    return len(time_t), step_s


def _check_values(file: TraceFile, name: str, rows: Rows) -> None:
    cpu_t = rows.cpu_t
    faults = {"not a number": ~np.isfinite(cpu_t), "negative": cpu_t < 0, "above 1": cpu_t > 1}
    for what, bad_t in faults.items():
        if bad_t.any():
            t = int(np.flatnonzero(bad_t)[0])
            hint = " (per cent? import it with --unit percent)" if what == "above 1" else ""
            value = f"utilization {cpu_t[t]:g} is {what}"
            raise _fault(file, name, rows, t, f"{value}; expected a fraction from 0 to 1{hint}")
    if not cpu_t.any():
        raise _fault(file, name, rows, 0, "all its utilizations are 0; leave it out")


def _check_factors(file: TraceFile, name: str, rows: Rows) -> None:
    bad_t = ~np.isfinite(rows.cpu_t) | (rows.cpu_t <= 0)
    if bad_t.any():
        t = int(np.flatnonzero(bad_t)[0])
        raise _fault(file, name, rows, t, f"factor {rows.cpu_t[t]:g}; expected a number above 0")


def _fault(file: TraceFile, name: str, rows: Rows, t: int, what: str) -> DataError:
    return DataError(f"{file.path}: machine '{name}', {rows.place(t)}: {what}")
