"""Files of rows as chunks of whole lines, in bounded memory: plain, gzipped or the first member of a ``.tar.gz``.

What is wrong with a file is told with its name and the line: a gzip that ends too early, a row that cannot be parsed.
"""

from __future__ import annotations

import importlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.core.files import check_file, said
from flexray.traces.files import complaint

CHUNK_BYTES = 1 << 23
"""Chunks do not depend on the number of threads, so neither does the order in which numbers are added up."""
LONGEST_LINE = 1 << 26
"""Rows are shorter; a small gzip file may hold a line that no memory does."""
BLOCK_BYTES = 1 << 20
"""Smaller blocks cost more in handing Python's lock to and fro than they save in copying."""
GZIP = b"\x1f\x8b"


def _inflater() -> Any:
    """Return isal's version of zlib, which is thrice as quick, or zlib itself where there is no isal."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib


inflating = _inflater()

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Chunk:
    """Some whole lines of a file, and where they begin: ``line`` of the first one, counted from 1."""

    path: Path
    data: bytes
    line: int
    unit: str = "line"

    def where(self, row: int) -> str:
        """Say where row ``row`` of the chunk stands, counted from 0."""
        return f"{self.path}: {self.unit} {self.line + row}"


def chunks(path: Path, size: int = CHUNK_BYTES, progress: Progress | None = None) -> Iterator[Chunk]:
    """Yield a file's lines, about ``size`` bytes at a time; ``progress`` is told how many bytes of the file were read.

    Raises:
        DataError: The file cannot be read, or its gzip data is damaged or ends too early.
    """
    line, parts, held = 1, [], 0
    check_file(path)
    try:
        for block in _blocks(path, progress or (lambda count: None)):
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
            yield from _tar(file, progress)
        else:
            yield from _gunzip(file, progress)


def _raw(file: RawIOBase, progress: Progress) -> Iterator[bytes]:
    while block := file.read(BLOCK_BYTES):
        progress(len(block))
        yield block


def _gunzip(file: RawIOBase, progress: Progress) -> Iterator[bytes]:
    """Inflate all members; Python's own gzip module reads in steps too small to be quick."""
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


def _tar(file: RawIOBase, progress: Progress) -> Iterator[bytes]:
    with tarfile.open(fileobj=file, mode="r|gz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                while block := content.read(BLOCK_BYTES):
                    progress(0)
                    yield block
                return


@contextmanager
def parsing(chunk: Chunk, header: Sequence[str] = ()) -> Iterator[None]:
    """Turn pyarrow's complaint about a row into one line that names file and line, and the column of a CSV's value."""
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


@dataclass(frozen=True)
class Columns:
    """Which columns of a header-less CSV are read: place -> name, and the type of each name."""

    width: tuple[int, ...]
    places: dict[int, str]
    types: dict[str, str]


def read_columns(chunk: Chunk, columns: Columns) -> Any:
    """Return a table of the chosen columns; every row must have as many fields as the format has."""
    import pyarrow
    from pyarrow import csv

    width = chunk.data.partition(b"\n")[0].count(b",") + 1
    if width not in columns.width:
        expected = " or ".join(map(str, columns.width))
        raise DataError(f"{chunk.where(0)}: expected {expected} columns, got {width}")
    names = [columns.places.get(i, f"column_{i}") for i in range(width)]
    kinds = {name: pyarrow.type_for_alias(kind) for name, kind in columns.types.items()}
    with parsing(chunk, names):
        return csv.read_csv(
            pyarrow.BufferReader(chunk.data),
            read_options=csv.ReadOptions(use_threads=False, column_names=names, block_size=CHUNK_BYTES),
            parse_options=csv.ParseOptions(ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(include_columns=list(kinds), column_types=kinds),
        )


def whole(column: Any, missing: int = -1) -> npt.NDArray[np.int64]:
    """Return a column of whole numbers, ``missing`` where there is none."""
    filled = column.fill_null(missing) if column.null_count else column
    numbers: npt.NDArray[np.int64] = one_piece(filled).to_numpy()
    return numbers


def floats(column: Any) -> npt.NDArray[np.float64]:
    """Return a column of numbers, NaN where there is none."""
    numbers: npt.NDArray[np.float64] = one_piece(column).to_numpy(zero_copy_only=False)
    return numbers


def one_piece(column: Any) -> Any:
    """Return a column as one Arrow array, without a copy if it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
