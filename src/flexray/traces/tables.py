"""Readers of CSV tables of samples: without a header, with a row per machine and time, and with a row per time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import DataError
from flexray.traces.chunks import Chunk, Columns, Progress, chunks, csv_table, floats, with_header
from flexray.traces.files import TIMES, is_long
from flexray.traces.samples import SampledFormat, Samples

KINDS = {"machine": "string", "time": "float64", "cpu": "float64"}


class Headerless(SampledFormat):
    """A header-less CSV of samples in per cent.

    Args:
        summary: One line for the help text.
        width: How many columns it has.
        places: Places of the columns ``machine``, ``time`` and ``cpu``.
    """

    unit = "percent"

    def __init__(self, summary: str, width: int, **places: int) -> None:
        self.summary = summary
        self._columns = Columns((width,), {name: (place, KINDS[name]) for name, place in places.items()})

    def samples(self, path: Path, progress: Progress) -> Iterator[Samples]:
        """Read the rows of a file."""
        for chunk in chunks(path, progress=progress):
            yield _samples(chunk, self._columns.read(chunk), "time")


def long(path: Path, progress: Progress) -> Iterator[Samples]:
    """Yield samples from a CSV with the columns machine, time (or time_s) and cpu.

    Raises:
        DataError: The header is another, or a row cannot be parsed.
    """
    for chunk, header in with_header(path, progress, _check_long):
        time = next(name for name in header if name in TIMES)
        yield _samples(chunk, csv_table(chunk, header, {time if k == "time" else k: v for k, v in KINDS.items()}), time)


def _check_long(path: Path, header: list[str]) -> None:
    if not is_long(header):
        raise DataError(f"{path}: expected the header 'machine,time,cpu', got '{','.join(header)[:60]}'")


def _samples(chunk: Chunk, table: Any, time: str) -> Samples:
    codes = table["machine"].combine_chunks().dictionary_encode()
    machine_n = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    names = codes.dictionary.to_pylist()
    if "" in names:
        nameless = names.index("")
        del names[nameless]
        machine_n[machine_n == nameless] = -1
        machine_n[machine_n > nameless] -= 1
    return Samples(chunk, names, machine_n, floats(table[time]), floats(table["cpu"]), np.arange(len(table)))


def wide(path: Path, progress: Progress) -> Iterator[Samples]:
    """Yield samples from a CSV with time (or time_s) first, then one column per machine.

    Raises:
        DataError: The header is another, names a machine twice, or a row cannot be parsed.
    """
    for chunk, header in with_header(path, progress, _check_wide):
        table = csv_table(chunk, header, dict.fromkeys(header, "float64"))
        machines = header[1:]
        value_n = np.stack([floats(table[name]) for name in machines], axis=1).ravel()
        row_n, machine_n = np.divmod(np.arange(len(value_n)), len(machines))
        yield Samples(chunk, machines, machine_n, floats(table[header[0]])[row_n], value_n, row_n, len(machines))


def _check_wide(path: Path, header: list[str]) -> None:
    if len(header) < 2 or header[0] not in TIMES:
        got = ",".join(header)[:60]
        raise DataError(f"{path}: expected the header 'time', then one machine per column, got '{got}'")
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise DataError(f"{path}: machine '{twice[0]}' has two columns")
