"""Importing: from files of a format to one native trace, with a count of repairs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flexray.core.errors import DataError
from flexray.core.files import check_file, failing, names_in
from flexray.traces.chunks import GZIP
from flexray.traces.cleaning import Counts, Policy, clean
from flexray.traces.files import FloatArray
from flexray.traces.formats import find_format
from flexray.traces.formats.base import Format, Request
from flexray.traces.parquet import TraceWriter


@dataclass
class Result:
    """The outcome of an import: machines, samples per machine, step, faults and their repairs."""

    machines: int
    length: int
    step_s: float
    counts: Counts
    policy: Policy


def import_trace(name: str | Format, request: Request, output: Path, source: str = "", strict: bool = False) -> Result:
    """Read files of a format and write a native trace.

    Args:
        name: The format, the name of one of flexray's, or a module with one.
        request: The files and options; an empty ``policy.above_one`` stands for the format's own.
        output: The file to write; nothing is written after an error.
        source: Origin of the values; by default the format and the names of the files.
        strict: Refuse any fault instead of repairing it.

    Raises:
        UserError: A file, a row or an option cannot be used.
    """
    form, name = (name, type(name).__name__) if isinstance(name, Format) else (find_format(name), name)
    form.check(name, request)
    files = expand(request.files)
    policy = replace(request.policy, above_one=request.policy.above_one or form.above_one)
    counts = Counts()
    imported = form.read(replace(request, files=files, policy=policy), counts)
    writer = TraceWriter(output, imported.step_s)
    result = Result(0, 0, imported.step_s, counts, policy)
    shown = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"

    def rows() -> Iterator[tuple[str, FloatArray]]:
        for machine, value_t in clean(imported.rows, policy, counts, shown):
            result.machines, result.length = result.machines + 1, len(value_t)
            yield machine, value_t
        if strict:
            counts.refuse(shown)

    more = f" to {files[-1].name}, {len(files)} files" if len(files) > 1 else ""
    writer.write(rows(), source or f"{name}: {files[0].name}{more}", False, counts.number)
    return result


def expand(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return files, those of folders in the order of their names.

    Raises:
        DataError: A file does not exist, is given twice, or a folder is empty.
    """
    files: list[Path] = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        found = [path / name for name in names_in(path) if not name.startswith(".") and not name.endswith("/")]
        if not found:
            raise DataError(f"{path}: expected files in this folder, got none")
        files.extend(found)
    seen: dict[object, Path] = {}
    for path in files:
        check_file(path)
        for mark in (path.resolve(), _ending(path)):
            if mark is not None and seen.setdefault(mark, path) is not path:
                raise DataError(f"{path}: has the same rows as {seen[mark]}; they would count double")
    return tuple(files)


def _ending(path: Path) -> bytes | None:
    """Return checksum and size of a gzip file's content; None for an empty one or another file."""
    with failing(f"{path}: cannot be read"), path.open("rb") as file:
        if file.read(2) != GZIP or path.stat().st_size < 18:
            return None
        file.seek(-8, os.SEEK_END)
        ending = file.read()
    return ending if any(ending[4:]) else None
