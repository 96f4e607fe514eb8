"""Importing: files of a format in, one native trace out, and an account of what was repaired."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.core.files import check_file, names_in, said
from flexray.traces.chunks import GZIP
from flexray.traces.cleaning import Counts, Policy, clean
from flexray.traces.formats import find_format
from flexray.traces.formats.base import Request
from flexray.traces.native import TraceWriter

FloatArray = npt.NDArray[np.float64]


@dataclass
class Result:
    """What an import wrote: machines, samples per machine, step, faults and how they were repaired."""

    machines: int
    length: int
    step_s: float
    counts: Counts
    policy: Policy


def import_trace(name: str, request: Request, output: Path, source: str = "", strict: bool = False) -> Result:
    """Read files of the format ``name`` and write a native trace.

    Args:
        name: A format that flexray knows, or a module that holds one.
        request: The files and how to treat them; ``policy.above_one`` empty takes the format's own.
        output: The file to write; nothing is written if anything is wrong.
        source: Where the values come from; by default the format and the names of the files.
        strict: Repair nothing: any fault is an error.

    Raises:
        UserError: A file, a row or an option cannot be used.
    """
    form = find_format(name)
    form.check(name, request)
    files = expand(request.files)
    policy = request.policy
    if not policy.above_one:
        policy = replace(policy, above_one=form.above_one)
    request = replace(request, files=files, policy=policy)
    counts = Counts()
    imported = form.read(request, counts)
    writer = TraceWriter(output, imported.step_s)
    result = Result(0, 0, imported.step_s, counts, policy)
    shown = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"

    def rows() -> Iterator[tuple[str, FloatArray]]:
        for machine, value_t in clean(imported.rows, policy, counts, shown):
            result.machines, result.length = result.machines + 1, len(value_t)
            yield machine, value_t
        if strict:
            counts.refuse(shown)

    writer.write(rows(), source or _source(name, files), False, counts.number)
    return result


def expand(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return files, those of folders in the order of their names.

    Raises:
        DataError: A file does not exist, is given twice, or a folder is empty.
    """
    files: list[Path] = []
    for path in paths:
        if not os.path.isdir(path):
            check_file(path)
            files.append(path)
            continue
        found = [path / name for name in names_in(path) if not name.startswith(".") and not name.endswith("/")]
        if not found:
            raise DataError(f"{path}: expected files in this folder, got none")
        for file in found:
            check_file(file)
        files.extend(found)
    seen: dict[object, Path] = {}
    for path in files:
        for mark in (path.resolve(), _ending(path)):
            if mark is not None and seen.setdefault(mark, path) is not path:
                raise DataError(f"{path}: has the same rows as {seen[mark]}; they would count double")
    return tuple(files)


def _ending(path: Path) -> bytes | None:
    """Return checksum and size of what a gzip file holds, None for an empty one or another file."""
    try:
        with path.open("rb") as file:
            if file.read(2) != GZIP or path.stat().st_size < 18:
                return None
            file.seek(-8, os.SEEK_END)
            ending = file.read()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {said(error)}") from error
    return ending if any(ending[4:]) else None


def _source(name: str, files: Sequence[Path]) -> str:
    more = f" to {files[-1].name}, {len(files)} files" if len(files) > 1 else ""
    return f"{name}: {files[0].name}{more}"
