"""Files of named fields as batches of rows, in bounded memory: JSON lines, CSV with a header, Parquet.

The first bytes of a file tell its kind. A nested field is named ``average_usage.cpus``; it is found nested, flattened
(``average_usage.cpus`` or ``average_usage_cpus``), or inside a text column ``average_usage``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import DataError
from flexray.core.files import check_file, failing
from flexray.traces.chunks import Chunk, Progress, chunks, csv_table, one_piece, parsing, split_header
from flexray.traces.files import BLOCK_BYTES, FloatArray, IntArray

ROWS = 1 << 18


@dataclass(frozen=True)
class Field:
    """A field to read: its name, its type (``int64``, ``float64``, ``string``) and whether it may lack."""

    name: str
    kind: str
    optional: bool = False

    @property
    def flat(self) -> tuple[str, ...]:
        """The names of a column that holds just this field."""
        return tuple(dict.fromkeys((self.name, self.name.replace(".", "_"))))

    @property
    def outer(self) -> str:
        """The name of the column that a nested field lies in."""
        return self.name.partition(".")[0]

    @property
    def inner(self) -> str:
        """The name inside that column."""
        return self.name.partition(".")[2]

    def column(self, names: Sequence[str]) -> str | None:
        """Return the column of a file that holds the field; None if it lacks."""
        return next((name for name in (*self.flat, self.outer) if name in names), None)


Found = Mapping[Field, str | None]
"""Field -> the column that holds it."""


@dataclass(frozen=True)
class Batch:
    """Rows of a file by field, as Arrow arrays; a field that lacks is None."""

    chunk: Chunk
    columns: dict[str, Any]
    size: int

    def has(self, name: str) -> bool:
        """Whether the file has a field."""
        return self.columns[name] is not None

    def whole(self, name: str, missing: int = -1) -> IntArray:
        """Return whole numbers, also from texts; ``missing`` where there is none."""
        column = self._cast(name, "int64")
        if column is None:
            return np.full(self.size, missing, np.int64)
        numbers: IntArray = column.fill_null(missing).to_numpy(zero_copy_only=False)
        return numbers

    def floats(self, name: str) -> FloatArray:
        """Return numbers, also from texts; NaN where there is none."""
        column = self._cast(name, "float64")
        if column is None:
            return np.full(self.size, np.nan)
        numbers: FloatArray = column.to_numpy(zero_copy_only=False)
        return numbers

    def strings(self, name: str) -> list[str | None]:
        """Return texts; None where there is none."""
        column = self._cast(name, "string")
        found: list[str | None] = [None] * self.size if column is None else column.to_pylist()
        return found

    def _cast(self, name: str, kind: str) -> Any:
        import pyarrow
        from pyarrow import compute, types

        column = self.columns[name]
        if column is None or str(column.type) == kind:
            return column
        if types.is_string(column.type) or types.is_large_string(column.type):
            column = compute.if_else(compute.equal(column, ""), None, column)
        try:
            return column.cast(pyarrow.type_for_alias(kind))
        except pyarrow.ArrowException as error:
            row = _first_bad(column.to_pylist(), int if kind == "int64" else float)
            raise DataError(f"{self.chunk.where(row)}: field '{name}': {str(error).splitlines()[0]}") from error


def _first_bad(values: Sequence[Any], convert: Callable[[Any], Any]) -> int:
    for row, value in enumerate(values):
        try:
            if value is not None and convert(value) != float(value):
                return row
        except ValueError:
            return row
    return 0


def batches(path: Path, fields: Sequence[Field], progress: Progress | None = None) -> Iterator[Batch]:
    """Yield the wanted fields of a file's rows.

    Raises:
        DataError: The file cannot be read, a row cannot be parsed, or a field that must be there lacks.
    """
    if _starts_with(path, b"PAR1"):
        yield from _parquet(path, fields, progress)
        return
    header: list[str] = []
    for chunk in chunks(path, progress=progress):
        if chunk.line == 1:
            if chunk.data.lstrip()[:1] != b"{":
                header, chunk = split_header(chunk)
            members = re.findall(rb'"([A-Za-z0-9_.]+)"\s*:', chunk.data[: 1 << 20])  # nested ones, too
            _check(path, fields, header or [name.decode() for name in dict.fromkeys(members)])
        if chunk.data:
            yield _csv_batch(chunk, fields, header) if header else _json_batch(chunk, fields)


def _starts_with(path: Path, magic: bytes) -> bool:
    check_file(path)
    with failing(f"{path}: cannot be read"), path.open("rb") as file:
        return file.read(len(magic)) == magic


def _check(path: Path, fields: Sequence[Field], names: Sequence[str]) -> None:
    for field in fields:
        if not field.optional and not field.column(names):
            shown = ", ".join(names)[:200]
            raise DataError(f"{path}: expected a field '{field.name}', got {shown or 'none'}")


def _batch(chunk: Chunk, table: Any, found: Found, inner: Callable[[Any, Field], Any]) -> Batch:
    """Return a batch of a table's columns; ``inner`` takes a nested field out of its column."""
    columns: dict[str, Any] = {}
    for field, name in found.items():
        column = one_piece(table[name]) if name else None
        columns[field.name] = column if name in (*field.flat, None) else inner(column, field)
    return Batch(chunk, columns, len(table))


def _member(column: Any, field: Field) -> Any:
    from pyarrow import compute

    return compute.struct_field(column, field.inner)


def _csv_batch(chunk: Chunk, fields: Sequence[Field], header: list[str]) -> Batch:
    found = {field: field.column(header) for field in fields}
    kinds = {name: field.kind if name in field.flat else "string" for field, name in found.items() if name}
    return _batch(chunk, csv_table(chunk, header, kinds), found, _in_text)


def _in_text(column: Any, field: Field) -> Any:
    from pyarrow import compute

    pattern = rf"""['"]?{re.escape(field.inner)}['"]?\s*[:=]\s*(?P<value>[-+0-9.eE]+)"""
    return compute.struct_field(compute.extract_regex(column, pattern), "value")


def _has(data: bytes, name: str, quote: bytes = b"") -> bool:
    """Whether a member of this name, with a value that starts with ``quote``, is in JSON lines."""
    return re.search(rb'"%s"\s*:\s*%s' % (re.escape(name).encode(), quote), data) is not None


def _json_batch(chunk: Chunk, fields: Sequence[Field]) -> Batch:
    import pyarrow
    from pyarrow import json

    names = [name for field in fields for name in (*field.flat, field.outer) if _has(chunk.data, name)]
    found = {field: field.column(names) for field in fields}
    schema: list[tuple[str, Any]] = []
    for field, name in found.items():
        if name is None:
            continue
        inner = field.inner if name not in field.flat else ""
        kind = "string" if _has(chunk.data, inner or name, b'"') else "int64" if field.kind == "string" else field.kind
        arrow_type = pyarrow.type_for_alias(kind)
        schema.append((name, pyarrow.struct([(inner, arrow_type)]) if inner else arrow_type))
    with parsing(chunk):
        table = json.read_json(
            pyarrow.BufferReader(chunk.data),
            json.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
            json.ParseOptions(explicit_schema=pyarrow.schema(schema), unexpected_field_behavior="ignore"),
        )
    return _batch(chunk, table, found, _member)


def _parquet(path: Path, fields: Sequence[Field], progress: Progress | None) -> Iterator[Batch]:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(path)
        names = file.schema_arrow.names
        _check(path, fields, names)
        found = {field: field.column(names) for field in fields}
        wanted = [name if name in field.flat else field.name for field, name in found.items() if name]
        row = 1
        for record in file.iter_batches(ROWS, columns=wanted, use_threads=False):
            yield _batch(Chunk(path, b"", row, "row"), pyarrow.Table.from_batches([record]), found, _member)
            row += len(record)
    except pyarrow.ArrowException as error:
        raise DataError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    if progress is not None:
        progress(path.stat().st_size)
