"""Files of rows as chunks of whole lines, in bounded memory: plain, gzipped or the first member of a ``.tar.gz``.

Errors name the file and the line: a gzip that ends too early, a row that cannot be parsed.
"""

from __future__ import annotations

import csv
import importlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any

from flexray.core.errors import DataError
from flexray.core.files import check_file, said
from flexray.traces.files import FloatArray, IntArray, complaint, read_csv

CHUNK_BYTES = 1 << 23
"""Chunks do not depend on the number of threads, so neither does the order in which numbers are added up."""
LONGEST_LINE = 1 << 26
"""Limit for a small gzip file that holds a line larger than memory."""
BLOCK_BYTES = 1 << 20
"""Smaller blocks cost more in switches of Python's lock than they save in copies."""
GZIP = b"\x1f\x8b"


def _inflater() -> Any:
    """Return isal's version of zlib, three times as fast, or zlib itself where there is no isal."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib


inflating = _inflater()

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


def no_progress(count: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Chunk:
    """Some whole lines of a file; ``line`` is the number of the first one, from 1."""

    path: Path
    data: bytes
    line: int
    unit: str = "line"

    def where(self, row: int) -> str:
        """Return the place of row ``row`` of the chunk, counted from 0."""
        return f"{self.path}: {self.unit} {self.line + row}"


def chunks(path: Path, size: int | None = None, progress: Progress | None = None) -> Iterator[Chunk]:
    """Yield a file's lines, about ``size`` bytes at a time, by default :data:`CHUNK_BYTES`.

    Raises:
        DataError: The file cannot be read, or its gzip data is damaged or ends too early.
    """
    line, parts, held = 1, [], 0
    size = CHUNK_BYTES if size is None else size
    check_file(path)
    try:
        for block in _blocks(path, progress or no_progress):
            cut = block.rfind(b"\n") + 1
            if held + cut < size or not cut:
                parts.append(block)
                held += len(block)
                if held > LONGEST_LINE:
                    raise DataError(f"{path}: line {line}: expected lines of at most {LONGEST_LINE >> 20} MiB")
                continue
            data = b"".join((*parts, block[:cut]))
            parts, held = [block[cut:]], len(block) - cut
            yield Chunk(path, data, line)
            line += data.count(b"\n")
    except (EOFError, zlib.error, inflating.error, tarfile.TarError) as error:
        line += b"".join(parts).count(b"\n")
        raise DataError(f"{path}: line {line}: the gzip data ends too early or is damaged ({error})") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {said(error)}") from error
    if rest := b"".join(parts):
        yield Chunk(path, rest, line)


def _blocks(path: Path, progress: Progress) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        zipped = file.read(2) == GZIP
        file.seek(0)
        if not zipped:
            yield from _raw(file, progress)
        elif path.name.endswith((".tar.gz", ".tgz")):
            yield from _tar(file)
        else:
            yield from _gunzip(file, progress)


def _raw(file: RawIOBase, progress: Progress) -> Iterator[bytes]:
    while block := file.read(BLOCK_BYTES):
        progress(len(block))
        yield block


def _gunzip(file: RawIOBase, progress: Progress) -> Iterator[bytes]:
    """Inflate all members; Python's own gzip module reads in steps too small to be fast."""
    inflate, inside = inflating.decompressobj(wbits=31), False
    for block in _raw(file, progress):
        rest = block if inside else block.lstrip(b"\0")
        while rest:
            inside = True
            yield inflate.decompress(rest, CHUNK_BYTES)
            rest = inflate.unconsumed_tail
            if inflate.eof:
                rest = inflate.unused_data.lstrip(b"\0")
                inflate, inside = inflating.decompressobj(wbits=31), False
    if inside:
        raise EOFError("no end marker")


def _tar(file: RawIOBase) -> Iterator[bytes]:
    with tarfile.open(fileobj=file, mode="r|gz") as archive:
        for member in archive:
            if content := archive.extractfile(member):
                while block := content.read(BLOCK_BYTES):
                    yield block
                return


@contextmanager
def parsing(chunk: Chunk, header: Sequence[str] = ()) -> Iterator[None]:
    """Turn pyarrow's error about a row into one line that names file and line, and the column of a CSV's value."""
    import pyarrow

    try:
        yield
    except pyarrow.ArrowException as error:
        text = str(error).splitlines()[0]
        found = re.search(r"Row #(\d+): (.*)", text) or re.search(r"()(.*) in row (\d+)", text)
        if found is None:
            raise DataError(f"{chunk.path}: after line {chunk.line}: {text}") from error
        row = int(found[1]) - 1 if found[1] else int(found[3])
        told = complaint(text, header)
        raise DataError(f"{chunk.where(row)}: {found[2][:120] if told == text else told}") from error


def csv_table(chunk: Chunk, header: Sequence[str], kinds: Mapping[str, str]) -> Any:
    """Return a table of the columns in ``kinds``; every row must have as many fields as the header."""
    import pyarrow

    with parsing(chunk, header):
        return read_csv(pyarrow.BufferReader(chunk.data), header, kinds)


@dataclass(frozen=True)
class Columns:
    """The columns to read of a header-less CSV: its numbers of columns, and place and type of each name."""

    widths: tuple[int, ...]
    found: Mapping[str, tuple[int, str]]

    def read(self, chunk: Chunk) -> Any:
        """Return a table of the columns; every row must have as many fields as the format has."""
        width = chunk.data.partition(b"\n")[0].count(b",") + 1
        if width not in self.widths:
            expected = " or ".join(map(str, self.widths))
            raise DataError(f"{chunk.where(0)}: expected {expected} columns, got {width}")
        names = [f"column_{place}" for place in range(width)]
        for name, (place, _) in self.found.items():
            names[place] = name
        return csv_table(chunk, names, {name: kind for name, (_, kind) in self.found.items()})


def split_header(chunk: Chunk) -> tuple[list[str], Chunk]:
    """Return the names in the first line of a file, and the rest."""
    first, _, rest = chunk.data.partition(b"\n")
    text = first.decode("utf-8-sig", errors="replace").strip()
    try:
        names = [name.strip() for name in next(csv.reader([text]), [])]
    except csv.Error as error:
        raise DataError(f"{chunk.where(0)}: expected the names of columns ({said(error)})") from error
    return names, Chunk(chunk.path, rest, chunk.line + 1)


def with_header(
    path: Path, progress: Progress, check: Callable[[Path, list[str]], None]
) -> Iterator[tuple[Chunk, list[str]]]:
    """Yield the rows of a CSV, chunk by chunk, with the names of its columns, which ``check`` may refuse."""
    header: list[str] = []
    for chunk in chunks(path, progress=progress):
        if chunk.line == 1:
            header, chunk = split_header(chunk)
            check(path, header)
        if chunk.data:
            yield chunk, header


def whole(column: Any, missing: int = -1) -> IntArray:
    """Return a column of whole numbers, ``missing`` where there is none."""
    filled = column.fill_null(missing) if column.null_count else column
    numbers: IntArray = one_piece(filled).to_numpy()
    return numbers


def floats(column: Any) -> FloatArray:
    """Return a column of numbers, NaN where there is none."""
    numbers: FloatArray = one_piece(column).to_numpy(zero_copy_only=False)
    return numbers


def one_piece(column: Any) -> Any:
    """Return a column as one Arrow array, without a copy if it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
