"""The native trace file: Parquet, made so that 13 of 12,500 machines are read in no time.

Columns ``machine`` (string), ``time_s`` (int64, from 0 in equal steps) and ``cpu`` (float32), sorted by machine, then
time, one row group per machine. Metadata of the file: ``flexray.step_s``, ``flexray.source``, ``flexray.synthetic``
(``true`` or ``false``), ``flexray.cleaning`` (JSON: kind -> count). A Parquet file of other make with these columns is
read too, only more slowly if a row group holds several machines.

Shapes: m = machines, t = samples of one machine, g = row groups.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import DataError
from flexray.traces.files import FloatArray, Rows, TraceFile, plain_floats, reading

METADATA = "flexray."
COLUMNS = ("machine", "time_s", "cpu")


class ParquetTrace(TraceFile):
    """A Parquet file with the columns machine, time_s and cpu."""

    def __init__(self, path: Path) -> None:
        from pyarrow.parquet import ParquetFile

        super().__init__(path)
        with reading(path):
            self._file = ParquetFile(path)
        self._check_columns()
        self._read_metadata()
        sizes = [self._file.metadata.row_group(g).num_rows for g in range(self._file.num_row_groups)]
        self._starts_g = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._groups = self._find_groups()
        self.machines = tuple(self._groups)
        self.length = 1
        self._check_names()
        self._set_grid(self._rows_of(self.machines[0], with_cpu=False).time_t)
        self.step_s = self.declared_step_s or self.step_s

    def rows(self, names: Iterable[str]) -> Iterator[tuple[str, Rows]]:
        """Read the row groups that hold the named machines."""
        for name in names:
            yield name, self._rows_of(name)

    def _check_columns(self) -> None:
        from pyarrow import types

        kinds = {field.name: field.type for field in self._file.schema_arrow}
        expected = {"time_s": types.is_integer, "cpu": types.is_floating}
        for name in COLUMNS:
            if name not in kinds:
                raise DataError(f"{self.path}: expected the columns {', '.join(COLUMNS)}, got {', '.join(kinds)}")
            if name in expected and not expected[name](kinds[name]):
                raise DataError(f"{self.path}: column '{name}': expected numbers, got {kinds[name]}")

    def _read_metadata(self) -> None:
        given = self._file.metadata.metadata or {}
        said = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in given.items()}
        self.synthetic = self._note(said, "synthetic", False, "true or false", {"true": True, "false": False}.get)
        self.cleaning = self._note(said, "cleaning", {}, "a JSON mapping of kinds of fault to counts", _counts)
        self.declared_step_s = self._note(said, "step_s", None, "seconds, a positive number", _seconds)
        self.source = " ".join(said.get(f"{METADATA}source", self.path.name).split())

    def _note(self, said: Mapping[str, str], name: str, default: Any, expected: str, read: Callable[[str], Any]) -> Any:
        """Return what the file says of itself; ``read`` answers None or raises where that makes no sense."""
        text = said.get(f"{METADATA}{name}")
        if text is None:
            return default
        try:
            found = read(text)
        except (ValueError, RecursionError):
            found = None
        if found is None:
            raise DataError(f"{self.path}: its note {METADATA}{name}: expected {expected}, got {reprlib.repr(text)}")
        return found

    def _find_groups(self) -> dict[str, list[int]]:
        """Return machine -> row groups that hold its rows, by the statistics where these name one machine."""
        column = self._file.schema_arrow.get_field_index("machine")
        groups: dict[str, list[int]] = {}
        self._mixed: set[int] = set()
        for g in range(self._file.num_row_groups):
            said = self._file.metadata.row_group(g).column(column).statistics
            if said is not None and said.has_min_max and said.min == said.max and not said.null_count:
                names = [said.min]
            else:
                self._mixed.add(g)
                names = self._names(self._read(g, ["machine"]).column("machine").unique())
            for name in names:
                if name is None:
                    raise DataError(f"{self.path}: after row {self._starts_g[g]}: a row without the name of a machine")
                groups.setdefault(str(name), []).append(g)
        return groups

    def _read(self, g: int, columns: list[str]) -> Any:
        with reading(self.path):
            return self._file.read_row_group(g, columns, use_threads=False)

    def _names(self, column: Any) -> list[Any]:
        with reading(self.path):  # a text may be none
            names: list[Any] = column.to_pylist()
        return names

    def _rows_of(self, name: str, with_cpu: bool = True) -> Rows:
        columns = ["time_s", *(["cpu"] if with_cpu else [])]
        times, cpus, rows = [], [], []
        for g in self._groups[name]:
            mixed = g in self._mixed
            table = self._read(g, [*columns, *(["machine"] if mixed else [])])
            row_t = self._starts_g[g] + np.arange(len(table)) + 1
            if mixed:
                own_t = np.array([str(other) == name for other in self._names(table["machine"])], bool)
                table, row_t = table.filter(own_t), row_t[own_t]
            if table["time_s"].null_count:
                raise DataError(f"{self.path}: machine '{name}', after row {self._starts_g[g]}: a row without a time")
            times.append(table["time_s"].to_numpy())
            cpus.append(_floats(table["cpu"]) if with_cpu else np.empty(0))
            rows.append(row_t)
        return Rows(np.concatenate(times), np.concatenate(cpus), np.concatenate(rows))


def _counts(text: str) -> dict[str, int] | None:
    found = json.loads(text)
    is_count = isinstance(found, dict) and all(type(count) is int and count >= 0 for count in found.values())
    return found if is_count else None


def _seconds(text: str) -> float | None:
    seconds = float(text)
    return seconds if 0 < seconds < math.inf else None


def _floats(column: Any) -> FloatArray:
    return plain_floats(column.to_numpy())
