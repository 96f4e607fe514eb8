"""Readers of small trace files: CSV in two forms and NumPy matrices; ``reading`` checks what they return.

* ``long``: CSV with the columns ``machine``, ``time`` (or ``time_s``), ``cpu``;
* ``wide``: CSV with ``time`` (or ``time_s``) first, then one column per machine;
* ``npy``: a matrix of machines x time; machines are called ``machine_000``, ..., a sample lasts 300 s.

Shapes: m = machines, t = samples of one machine, n = rows of a file.
"""

from __future__ import annotations

import csv
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.core.files import check_file, open_array, said

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

STEP_S = 300.0
"""Length of a sample where the file does not give one: a matrix, or a single sample."""
TIMES = ("time", "time_s")
BLOCK_BYTES = 1 << 24


@dataclass(frozen=True, eq=False)
class Rows:
    """One machine's samples in the order of the file, and the row of the file of each."""

    time_t: npt.NDArray[Any]
    cpu_t: FloatArray
    row_t: IntArray
    label: str = "row {}"

    def place(self, t: int) -> str:
        """Return the place of sample ``t``; rows of a CSV count from its header, row 1."""
        return self.label.format(self.row_t[t])


class TraceFile(ABC):
    """A trace file; opening it reads names only.

    Attributes:
        path: The file.
        machines: Names, in the order of the file.
        step_s: Seconds that one sample lasts.
        declared_step_s: The same as the file's metadata gives it; None if it does not.
        length: Samples per machine.
        synthetic: Whether the values were generated.
        source: Origin of the values.
        cleaning: Repairs of the import, as kind -> count; empty if the file has none.
    """

    synthetic = False
    declared_step_s: float | None = None
    cleaning: Mapping[str, int] = {}
    machines: tuple[str, ...]
    length: int
    step_s: float

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = path.name

    @cached_property
    def places(self) -> dict[str, int]:
        """Name -> place in ``machines``."""
        return {name: m for m, name in enumerate(self.machines)}

    @abstractmethod
    def rows(self, names: Iterable[str]) -> Iterator[tuple[str, Rows]]:
        """Read the samples of the named machines."""

    def _check_names(self) -> None:
        twice = [name for name, count in Counter(self.machines).items() if count > 1]
        if twice:
            raise DataError(f"{self.path}: machine '{twice[0]}' occurs twice")
        if "" in self.machines:
            column = self.machines.index("") + 2
            raise DataError(f"{self.path}: column {column}: expected the name of a machine, got none")
        if not self.machines:
            raise DataError(f"{self.path}: expected at least one machine and one sample, got none")

    def _set_grid(self, time_t: npt.NDArray[Any]) -> None:
        self._check_names()
        self.length = len(time_t)
        if not self.length:
            raise DataError(f"{self.path}: expected at least one machine and one sample, got none")
        self.step_s = float(time_t[1] - time_t[0]) if len(time_t) > 1 else STEP_S


class MatrixTrace(TraceFile):
    """``.npy``: machines x time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._cpu_mt = open_array(path)
        if self._cpu_mt.ndim != 2 or not self._cpu_mt.size or self._cpu_mt.dtype.kind not in "fiu":
            shape, kind = self._cpu_mt.shape, self._cpu_mt.dtype
            raise DataError(f"{path}: expected numbers of shape machines x time, got {kind} of shape {shape}")
        self.machines = tuple(f"machine_{m:03d}" for m in range(len(self._cpu_mt)))
        self._time_t = np.arange(self._cpu_mt.shape[1]) * int(STEP_S)
        self._set_grid(self._time_t)

    def rows(self, names: Iterable[str]) -> Iterator[tuple[str, Rows]]:
        """Copy rows of the matrix."""
        for name in names:
            m = self.places[name]
            cpu_t, column_t = plain_floats(self._cpu_mt[m]), np.arange(1, self.length + 1)
            yield name, Rows(self._time_t, cpu_t, column_t, f"row {m + 1}, column {{}}")


class _CsvTrace(TraceFile):
    def __init__(self, path: Path, header: list[str]) -> None:
        super().__init__(path)
        self._header = header
        self._time = next(name for name in header if name in TIMES)

    def _read(self, columns: Iterable[str]) -> Any:
        """Return a table of some columns: texts under ``machine``, else numbers."""
        kinds = {name: "string" if name == "machine" else "float64" for name in columns}
        with reading(self.path, self._header):
            return read_csv(self.path, self._header, kinds, skip_rows=1)

    def _times(self, table: Any) -> FloatArray:
        time_n: FloatArray = table[self._time].to_numpy()
        if np.isnan(time_n).any():
            row = int(np.flatnonzero(np.isnan(time_n))[0]) + 2
            raise DataError(f"{self.path}: row {row}: expected a time in seconds, got none")
        return time_n


class WideTrace(_CsvTrace):
    """CSV: time, then one column per machine."""

    def __init__(self, path: Path, header: list[str]) -> None:
        super().__init__(path, header)
        self.machines = tuple(header[1:])
        self._check_names()
        self._set_grid(self._times(self._read([self._time])))

    def rows(self, names: Iterable[str]) -> Iterator[tuple[str, Rows]]:
        """Read the columns of the named machines."""
        wanted = list(names)
        table = self._read([self._time, *wanted])
        time_t, row_t = self._times(table), np.arange(2, len(table) + 2)
        for name in wanted:
            yield name, Rows(time_t, table[name].to_numpy(), row_t)


class LongTrace(_CsvTrace):
    """CSV: one row per machine and time."""

    def __init__(self, path: Path, header: list[str]) -> None:
        super().__init__(path, header)
        table = self._read(header)
        codes = table["machine"].combine_chunks().dictionary_encode()
        code_n = codes.indices.to_numpy()
        self.machines = tuple(codes.dictionary.to_pylist())
        if "" in self.machines:
            row = int(np.flatnonzero(code_n == self.machines.index(""))[0]) + 2
            raise DataError(f"{path}: row {row}: expected the name of a machine, got none")
        order_n = np.argsort(code_n, kind="stable")
        self._places = np.split(order_n, np.searchsorted(code_n[order_n], np.arange(1, len(self.machines))))
        self._time_n, self._cpu_n = self._times(table), table["cpu"].to_numpy()
        self._set_grid(self._time_n[self._places[0]])

    def rows(self, names: Iterable[str]) -> Iterator[tuple[str, Rows]]:
        """Pick the rows of the named machines."""
        for name in names:
            n = self._places[self.places[name]]
            yield name, Rows(self._time_n[n], self._cpu_n[n], n + 2)


def is_long(header: list[str]) -> bool:
    """Whether a header is that of a CSV with one row per machine and time."""
    return {"machine", "cpu"} < set(header) and len(header) == 3 and len(set(header) & set(TIMES)) == 1


def csv_header(path: Path) -> list[str]:
    """Return the names of a CSV file's columns."""
    with reading(path), path.open(newline="", encoding="utf-8-sig") as lines:
        return [name.strip() for name in next(csv.reader(lines), [])]


def read_csv(source: Any, names: Sequence[str], kinds: Mapping[str, str], skip_rows: int = 0) -> Any:
    """Return a pyarrow table of the columns in ``kinds`` (name -> type) of a CSV whose columns are ``names``."""
    import pyarrow
    from pyarrow import csv as arrow

    types = {name: pyarrow.type_for_alias(kind) for name, kind in kinds.items()}
    return arrow.read_csv(
        source,
        arrow.ReadOptions(column_names=names, skip_rows=skip_rows, use_threads=False, block_size=BLOCK_BYTES),
        arrow.ParseOptions(ignore_empty_lines=False),
        arrow.ConvertOptions(include_columns=list(types), column_types=types),
    )


def complaint(text: str, header: Sequence[str]) -> str:
    """Return pyarrow's message about a value of a CSV as the column and what it expects; others as they are."""
    found = re.search(r"CSV column #(\d+): .*CSV conversion error to (\w+): invalid value '(.{0,80})", text)
    if not found or int(found[1]) >= len(header):
        return text
    name, is_whole = header[int(found[1])], "int" in found[2]
    what = "a whole number" if is_whole else "seconds, a number" if name in TIMES else "a number"
    return f"{name}: expected {what}, got '{found[3].removesuffix(chr(39))}'"


@contextmanager
def reading(path: Path, header: Sequence[str] = ()) -> Iterator[None]:
    """Turn errors of reading into one line that names the file, and column and row of a CSV's value."""
    import pyarrow

    check_file(path, "a trace")
    try:
        yield
    except (OSError, EOFError, ValueError, MemoryError, csv.Error, pyarrow.ArrowException) as error:
        if isinstance(error, DataError):
            raise
        row = re.search(r"Row #(\d+): ", str(error))
        if row and (told := complaint(str(error), header)) != str(error):
            raise DataError(f"{path}: row {row[1]}: {told}") from error
        raise DataError(f"{path}: cannot be read: {said(error)}") from error


def check_output(path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a name with another suffix, or in a folder that does not exist."""
    if path.suffix not in suffixes:
        raise DataError(f"{path}: expected a name that ends in {' or '.join(suffixes)}")
    if not path.parent.is_dir():
        raise DataError(f"{path}: no such folder")


def plain_floats(values: npt.NDArray[Any]) -> FloatArray:
    """Return float64; from float32 to 7 decimals, so that 0.15 is 0.15 again and 20 (1 - 0.15) is 17, never 16."""
    floats = np.asarray(values, np.float64)
    return np.round(floats, 7) if values.dtype == np.float32 else floats
