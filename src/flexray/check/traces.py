"""What flexray relies on in a format of traces, for a file that the user gives.

Shapes: w = windows of one machine.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flexray.check.causes import Cause, Watch, fingerprint
from flexray.check.promises import BrokenError, Checks, same
from flexray.core.errors import ConfigError, DataError
from flexray.traces import chunks
from flexray.traces.cleaning import Counts, Policy
from flexray.traces.files import FloatArray
from flexray.traces.formats.base import Format, Request
from flexray.traces.importing import expand, import_trace
from flexray.traces.reading import read_trace

UNITS = (None, "fraction", "percent")
REPAIRS = ("clip", "fill", "refuse")
ROUNDING = 1e-9
LEAST, PIECES = 16, 7
"""Bytes of a small chunk at least, and how many of them a file has about."""
LARGE = 1 << 26
"""Bytes of files that are not cut in two."""
EVENTS = ("unused", "optional", "needed")
UNSEEN = Cause("with nothing seen that may be why", "read from the files alone")


def check_format(checks: Checks, factory: partial[Any], words: Mapping[str, Any]) -> None:
    """Check a format by reading files.

    Args:
        checks: Notes what is kept and broken.
        factory: Makes the format.
        words: ``files``: one or several files of the format; ``machine_events``, ``step``, ``unit``: as on the command
            line of ``python -m flexray.traces import``.

    Raises:
        ConfigError: No file is given.
    """
    form, request = factory(), _request(words)
    with checks.promise("says what it is: summary, unit, above_one, events"):
        for name, known in (("unit", UNITS), ("above_one", REPAIRS), ("events", EVENTS)):
            if (found := getattr(form, name, None)) not in known:
                raise BrokenError(f"{name} is {found!r}", f"expected one of: {', '.join(map(str, known))}")
        if not isinstance(getattr(form, "summary", None), str):
            raise BrokenError("it has no summary", "expected one line for the help text")
        form.check(checks.subject, request)
    if checks.broke():
        return
    request = replace(request, policy=Policy(above_one=getattr(form, "above_one", "clip")))
    with checks.promise("reads machines in the order of their names, with a value from 0 to 1 or NaN per window"):
        _check_rows(form, request)
    if checks.broke():
        return
    what = "becomes a trace: utilizations from 0 to 1 at increasing times"
    with checks.promise(what), tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "trace.parquet"
        import_trace(form, request, output, checks.subject)
        read_trace(output)
    with checks.promise("reads the same numbers again, with any number of workers"):
        with Watch(checks.target, 1, seeds_torch=True, sees=False):
            expected = _read(factory(), request)
        with Watch(checks.target, 2, seeds_torch=True) as watch:
            found, again = _read(form, replace(request, workers=1)), _read(form, replace(request, workers=4))
        for one in (found, again):
            same(one, expected, "they differ", UNSEEN, lambda: watch.causes)
    if not checks.broke():
        step = form.read(request, Counts()).step_s  # else some formats look for it in the first chunk
        request = replace(request, step_s=int(step)) if step == int(step) else request
        _reads_in_pieces(checks, form, request)
        _reads_parts(checks, form, request)


def _request(words: Mapping[str, Any]) -> Request:
    files = words.get("files")
    if not files:
        raise ConfigError("files: a format is checked by reading; expected files=[cpu.csv]")
    listed = [files] if isinstance(files, str | Path) else files
    if not isinstance(listed, Sequence):
        raise ConfigError(f"files: expected a list of files, got {files!r}")
    events = words.get("machine_events")
    return Request(
        expand([Path(path) for path in listed]), None if events is None else Path(events), words.get("step"),
        words.get("unit"),
    )  # fmt: skip


def _check_rows(form: Format, request: Request) -> None:
    imported = form.read(request, Counts())
    if not 0 < imported.step_s < math.inf:
        raise DataError(f"step_s: expected seconds above 0, got {imported.step_s}")
    names: list[str] = []
    length = None
    for name, value_w in imported.rows:
        where = f"machine '{name}'"
        if not isinstance(value_w, np.ndarray) or value_w.ndim != 1 or value_w.dtype.kind != "f":
            raise DataError(f"{where}: expected an array of numbers, one per window")
        if length not in (None, len(value_w)):
            raise DataError(f"{where}: {len(value_w)} windows, expected {length} as before")
        off = np.flatnonzero((value_w < 0) | (value_w > 1))
        if off.size:
            raise DataError(
                f"{where}, window {off[0] + 1}: {value_w[off[0]]:g}; expected a fraction: divide by"
                " self.divisor(request), and let flexray.traces.cleaning.judge repair"
            )
        names.append(name)
        length = len(value_w)
    if not names or names != sorted(set(names)):
        raise DataError(f"expected machines sorted by name, each once, got {', '.join(map(str, names[:4])) or 'none'}")


def _read(form: Format, request: Request) -> dict[str, str]:
    return {name: fingerprint(value_w) for name, value_w in form.read(request, Counts()).rows}


def _values(form: Format, request: Request) -> dict[str, FloatArray]:
    return dict(form.read(request, Counts()).rows)


def _reads_in_pieces(checks: Checks, form: Format, request: Request) -> None:
    """Large files come in chunks of whole lines (:func:`flexray.traces.chunks.chunks`)."""
    with checks.promise("reads a file in small chunks as in one"):
        whole = _values(form, request)
        with _small_chunks(max(LEAST, request.files[0].stat().st_size // PIECES)):
            pieces = _values(form, request)
        mend = "take over from chunk to chunk what a row needs of those before it"
        same(_agree(pieces, whole), True, "small chunks give other values", Cause("", mend))


@contextmanager
def _small_chunks(size: int) -> Iterator[None]:
    """Let chunks of files have about ``size`` bytes."""
    before = chunks.CHUNK_BYTES, chunks.BLOCK_BYTES
    chunks.CHUNK_BYTES = chunks.BLOCK_BYTES = size
    try:
        yield
    finally:
        chunks.CHUNK_BYTES, chunks.BLOCK_BYTES = before


def _agree(found: dict[str, FloatArray], expected: dict[str, FloatArray]) -> bool:
    """Whether two readings have the same machines and values, but for the order in which values were added up."""
    return found.keys() == expected.keys() and all(
        found[name].shape == expected[name].shape
        and np.allclose(found[name], expected[name], rtol=ROUNDING, equal_nan=True)
        for name in expected
    )


def _reads_parts(checks: Checks, form: Format, request: Request) -> None:
    """Two files with half the rows each are read as the file with all of them."""
    path = request.files[0]
    data = path.read_bytes() if path.stat().st_size <= LARGE else b""
    lines = data.splitlines(keepends=True)
    if len(request.files) > 1 or data.startswith(chunks.GZIP) or b"\0" in data or len(lines) < 4:
        checks.notes.append("files in parts: that takes one small file of text, with a few rows")
        return
    with tempfile.TemporaryDirectory() as folder:
        halves = [lines[: len(lines) // 2], lines[len(lines) // 2 :]]
        if _is_header(lines[0]):
            halves[1] = [lines[0], *halves[1]]
        files = tuple(Path(folder) / f"{number}{path.suffix}" for number in (1, 2))
        for file, half in zip(files, halves, strict=True):
            file.write_bytes(b"".join(half))
        with checks.promise("reads a file in two parts as it reads the whole"):
            parts, whole = _values(form, replace(request, files=files)), _values(form, request)
            mend = "add up the files of request.files in order"
            same(_agree(parts, whole), True, "the parts give other values", Cause("", mend))


def _is_header(line: bytes) -> bool:
    """Whether a line of text names columns: its last field is no number."""
    try:
        float(line.rpartition(b",")[2])
    except ValueError:
        return True
    return False
