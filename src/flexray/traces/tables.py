"""Reads CSV tables of samples: header-less ones, and those with one row per machine and time or per time only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import DataError
from flexray.traces.chunks import Chunk, Columns, Progress, chunks, floats, read_columns
from flexray.traces.files import TIMES, is_long
from flexray.traces.records import csv_table, split_header
from flexray.traces.samples import Samples


def headerless(path: Path, columns: Columns, progress: Progress | None = None) -> Iterator[Samples]:
    """Yield samples from a header-less CSV with the columns machine, time and cpu at given places."""
    for chunk in chunks(path, progress=progress):
        yield _samples(chunk, read_columns(chunk, columns), "time")


def long(path: Path, progress: Progress | None = None) -> Iterator[Samples]:
    """Yield samples from a CSV with the columns machine, time (or time_s) and cpu.

    Raises:
        DataError: The header is another, or a row cannot be parsed.
    """
    header: list[str] = []
    for chunk in chunks(path, progress=progress):
        if chunk.line == 1:
            header, chunk = split_header(chunk)
            if not is_long(header):
                raise DataError(f"{path}: expected the header 'machine,time,cpu', got '{','.join(header)[:60]}'")
        if chunk.data:
            time = next(name for name in header if name in TIMES)
            table = csv_table(chunk, header, {"machine": "string", time: "float64", "cpu": "float64"})
            yield _samples(chunk, table, time)


def _samples(chunk: Chunk, table: Any, time: str) -> Samples:
    codes = table["machine"].combine_chunks().dictionary_encode()
    machine_n = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    names = codes.dictionary.to_pylist()
    if "" in names:
        nameless = names.index("")
        names[nameless] = names[-1]
        machine_n[machine_n == nameless] = -1
        machine_n[machine_n == len(names) - 1] = nameless if nameless < len(names) - 1 else -1
        names.pop()
    return Samples(chunk, names, machine_n, floats(table[time]), floats(table["cpu"]), np.arange(len(table)))


def wide(path: Path, progress: Progress | None = None) -> Iterator[Samples]:
    """Yield samples from a CSV with time (or time_s) first, then one column per machine.

    Raises:
        DataError: The header is another, names a machine twice, or a row cannot be parsed.
    """
    header: list[str] = []
    for chunk in chunks(path, progress=progress):
        if chunk.line == 1:
            header, chunk = split_header(chunk)
            _check_wide(path, header)
        if chunk.data:
            table = csv_table(chunk, header, dict.fromkeys(header, "float64"))
            machines = header[1:]
            value_n = np.stack([floats(table[name]) for name in machines], axis=1).ravel()
            row_n, machine_n = np.divmod(np.arange(len(value_n)), len(machines))
            yield Samples(chunk, machines, machine_n, floats(table[header[0]])[row_n], value_n, row_n, len(machines))


def _check_wide(path: Path, header: list[str]) -> None:
    if len(header) < 2 or header[0] not in TIMES:
        raise DataError(
            f"{path}: expected the header 'time', then one machine per column, got '{','.join(header)[:60]}'"
        )
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise DataError(f"{path}: machine '{twice[0]}' has two columns")
