"""The native trace file: Parquet with a row group per machine, so that a few of many machines are read quickly.

Columns ``machine`` (string), ``time_s`` (int64, from 0 in equal steps) and ``cpu`` (float32), sorted by machine, then
time. Metadata of the file: ``flexray.step_s``, ``flexray.source``, ``flexray.synthetic`` (``true`` or ``false``),
``flexray.cleaning`` (JSON: kind -> count). Other Parquet files with these columns are read too, more slowly if a row
group holds several machines.

Shapes: m = machines, t = samples of one machine, g = row groups.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import DataError
from flexray.core.files import failing
from flexray.traces.files import FloatArray, Rows, TraceFile, check_output, plain_floats, reading

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
        notes = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in given.items()}
        self.synthetic = self._note(notes, "synthetic", False, "true or false", {"true": True, "false": False}.get)
        self.cleaning = self._note(notes, "cleaning", {}, "a JSON mapping of kinds of fault to counts", _counts)
        self.declared_step_s = self._note(notes, "step_s", None, "seconds, a positive number", _seconds)
        self.source = " ".join(notes.get(f"{METADATA}source", self.path.name).split())

    def _note(
        self, notes: Mapping[str, str], name: str, default: Any, expected: str, read: Callable[[str], Any]
    ) -> Any:
        """Return a note of the metadata; ``read`` returns None or raises for an invalid one."""
        text = notes.get(f"{METADATA}{name}")
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
            found = self._file.metadata.row_group(g).column(column).statistics
            if found is not None and found.has_min_max and found.min == found.max and not found.null_count:
                names = [found.min]
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
        with reading(self.path):  # bytes may be no text
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
            cpus.append(plain_floats(table["cpu"].to_numpy()) if with_cpu else np.empty(0))
            rows.append(row_t)
        return Rows(np.concatenate(times), np.concatenate(cpus), np.concatenate(rows))


def _counts(text: str) -> dict[str, int] | None:
    found = json.loads(text)
    is_count = isinstance(found, dict) and all(type(count) is int and count >= 0 for count in found.values())
    return found if is_count else None


def _seconds(text: str) -> float | None:
    seconds = float(text)
    return seconds if 0 < seconds < math.inf else None


class TraceWriter:
    """Writes a trace file machine by machine; it appears under its name only when it is complete.

    Args:
        path: Where; a file that is there is replaced.
        step_s: Seconds that a sample lasts, a whole number.
    """

    def __init__(self, path: Path, step_s: float) -> None:
        check_output(path, [".parquet"])
        if step_s != int(step_s) or step_s < 1:
            raise DataError(f"{path}: a step of {step_s:g} s; expected whole seconds")
        self._path, self._step_s = path, int(step_s)

    def write(
        self, rows: Iterable[tuple[str, FloatArray]], source: str, synthetic: bool, cleaning: Mapping[str, int]
    ) -> None:
        """Write machines sorted by name; ``cleaning`` may change until ``rows`` ends."""
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        notes = {"step_s": str(self._step_s), "source": source, "synthetic": str(synthetic).lower()}
        try:
            with failing(f"{self._path}: cannot be written"):
                self._write(part, rows, notes, cleaning)
                part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)

    def _write(
        self, part: Path, rows: Iterable[tuple[str, FloatArray]], notes: dict[str, str], cleaning: Mapping[str, int]
    ) -> None:
        import pyarrow
        from pyarrow import parquet

        schema = pyarrow.schema(
            [("machine", pyarrow.string()), ("time_s", pyarrow.int64()), ("cpu", pyarrow.float32())]
        )
        options: dict[str, Any] = {
            "compression": {"machine": "none", "time_s": "none", "cpu": "zstd"},
            "use_dictionary": ["machine", "cpu"],
            "column_encoding": {"time_s": "DELTA_BINARY_PACKED"},
            "write_statistics": ["machine"],
        }
        with parquet.ParquetWriter(part, schema, **options) as writer:
            for name, cpu_t in rows:
                time_t = np.arange(len(cpu_t), dtype=np.int64) * self._step_s
                machine_t = pyarrow.repeat(name, len(cpu_t))
                table = pyarrow.table([machine_t, time_t, cpu_t.astype(np.float32)], schema=schema)
                writer.write_table(table, row_group_size=len(cpu_t))
            notes["cleaning"] = json.dumps(dict(cleaning))
            writer.add_key_value_metadata({f"{METADATA}{key}": value for key, value in notes.items()})
