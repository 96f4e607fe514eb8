"""Files of named fields as batches of rows, in bounded memory: JSON lines, CSV with a header, Parquet.

Which of them a file is, its first bytes tell. A nested field is named ``average_usage.cpus``; it is found nested,
flattened (``average_usage.cpus`` or ``average_usage_cpus``), or inside a text column ``average_usage``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.core.files import check_file, said
from flexray.traces.chunks import CHUNK_BYTES, Chunk, Progress, chunks, parsing

ROWS = 1 << 18


@dataclass(frozen=True)
class Field:
    """A field to read: its name, what it is read as (``int64``, ``float64``, ``string``) and whether it may lack."""

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


@dataclass(frozen=True)
class Batch:
    """Rows of a file by field, as Arrow arrays; a field that lacks is None."""

    chunk: Chunk
    columns: dict[str, Any]
    size: int

    def has(self, name: str) -> bool:
        """Say whether the file has a field."""
        return self.columns[name] is not None

    def whole(self, name: str, missing: int = -1) -> npt.NDArray[np.int64]:
        """Return whole numbers, also from texts; ``missing`` where there is none."""
        column = self._cast(name, "int64")
        if column is None:
            return np.full(self.size, missing, np.int64)
        numbers: npt.NDArray[np.int64] = column.fill_null(missing).to_numpy(zero_copy_only=False)
        return numbers

    def floats(self, name: str) -> npt.NDArray[np.float64]:
        """Return numbers, also from texts; NaN where there is none."""
        column = self._cast(name, "float64")
        if column is None:
            return np.full(self.size, np.nan)
        numbers: npt.NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
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
            _check(path, fields, header or _json_names(chunk.data))
        if chunk.data:
            yield _csv_batch(chunk, fields, header) if header else _json_batch(chunk, fields)


def split_header(chunk: Chunk) -> tuple[list[str], Chunk]:
    """Return the names in the first line of a file, and the rest."""
    first, _, rest = chunk.data.partition(b"\n")
    text = first.decode("utf-8-sig", errors="replace").strip()
    try:
        names = [name.strip() for name in next(csv.reader([text]), [])]
    except csv.Error as error:
        raise DataError(f"{chunk.where(0)}: expected the names of columns ({said(error)})") from error
    return names, Chunk(chunk.path, rest, chunk.line + 1)


def csv_table(chunk: Chunk, header: Sequence[str], kinds: dict[str, str]) -> Any:
    """Return a table of the columns in ``kinds``; every row must have as many fields as the header."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    types = {name: pyarrow.type_for_alias(kind) for name, kind in kinds.items()}
    with parsing(chunk, header):
        return arrow_csv.read_csv(
            pyarrow.BufferReader(chunk.data),
            read_options=arrow_csv.ReadOptions(use_threads=False, column_names=header, block_size=2 * CHUNK_BYTES),
            parse_options=arrow_csv.ParseOptions(ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(include_columns=list(types), column_types=types),
        )


def _starts_with(path: Path, magic: bytes) -> bool:
    check_file(path)
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {said(error)}") from error


def _check(path: Path, fields: Sequence[Field], names: Sequence[str]) -> None:
    for field in fields:
        if not field.optional and not {*field.flat, field.outer} & set(names):
            shown = ", ".join(names)[:200]
            raise DataError(f"{path}: expected a field '{field.name}', got {shown or 'none'}")


def _column(field: Field, names: Sequence[str]) -> str | None:
    return next((name for name in (*field.flat, field.outer) if name in names), None)


def _csv_batch(chunk: Chunk, fields: Sequence[Field], header: list[str]) -> Batch:
    from pyarrow import compute

    found = {field: _column(field, header) for field in fields}
    kinds = {name: field.kind if name in field.flat else "string" for field, name in found.items() if name}
    table = csv_table(chunk, header, kinds)
    columns: dict[str, Any] = {}
    for field, name in found.items():
        column = table[name].combine_chunks() if name else None
        if name and name not in field.flat:
            pattern = rf"""['"]?{re.escape(field.inner)}['"]?\s*[:=]\s*(?P<value>[-+0-9.eE]+)"""
            column = compute.struct_field(compute.extract_regex(column, pattern), "value")
        columns[field.name] = column
    return Batch(chunk, columns, len(table))


def _json_names(data: bytes) -> list[str]:
    """Return the names of all members in the first lines, nested ones too."""
    return [name.decode() for name in dict.fromkeys(re.findall(rb'"([A-Za-z0-9_.]+)"\s*:', data[: 1 << 20]))]


def _json_batch(chunk: Chunk, fields: Sequence[Field]) -> Batch:
    import pyarrow
    from pyarrow import compute, json

    found: dict[Field, str | None] = {}
    schema: list[tuple[str, Any]] = []
    for field in fields:
        name = next((name for name in (*field.flat, field.outer) if _is_member(chunk.data, name)), None)
        found[field] = name
        if name is None:
            continue
        inner = field.inner if name not in field.flat else ""
        quoted = re.search(rb'"%s"\s*:\s*"' % re.escape(inner or name).encode(), chunk.data) is not None
        kind = pyarrow.string() if quoted else pyarrow.type_for_alias(field.kind)
        if not quoted and field.kind == "string":
            kind = pyarrow.int64()
        schema.append((name, pyarrow.struct([(inner, kind)]) if inner else kind))
    options = json.ParseOptions(explicit_schema=pyarrow.schema(schema), unexpected_field_behavior="ignore")
    with parsing(chunk):
        table = json.read_json(
            pyarrow.BufferReader(chunk.data),
            read_options=json.ReadOptions(use_threads=False, block_size=2 * CHUNK_BYTES),
            parse_options=options,
        )
    columns: dict[str, Any] = {}
    for field, name in found.items():
        column = table[name].combine_chunks() if name else None
        columns[field.name] = column if name in (*field.flat, None) else compute.struct_field(column, field.inner)
    return Batch(chunk, columns, len(table))


def _is_member(data: bytes, name: str) -> bool:
    return re.search(rb'"%s"\s*:' % re.escape(name).encode(), data) is not None


def _parquet(path: Path, fields: Sequence[Field], progress: Progress | None) -> Iterator[Batch]:
    import pyarrow
    from pyarrow import compute
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(path)
        names = file.schema_arrow.names
        _check(path, fields, names)
        found = {field: _column(field, names) for field in fields}
        wanted = [name if name in field.flat else field.name for field, name in found.items() if name]
        row = 1
        for record in file.iter_batches(ROWS, columns=wanted, use_threads=False):
            columns: dict[str, Any] = {}
            for field, name in found.items():
                column = record[name] if name else None
                columns[field.name] = (
                    column if name in (*field.flat, None) else compute.struct_field(column, field.inner)
                )
            yield Batch(Chunk(path, b"", row, "row"), columns, len(record))
            row += len(record)
    except pyarrow.ArrowException as error:
        raise DataError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    if progress is not None:
        progress(path.stat().st_size)
