"""Checks of files before a reader opens them, so that no reader hangs, runs out of memory or breaks.

Pipes and devices such as ``/dev/zero`` open like files and never end, and NumPy trusts the header of an ``.npy`` file.

Shapes: n = rows of an array.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError, UserError

LONGEST = 300
"""Characters of another library's message that are shown."""
KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
HEADER_ERRORS = (ValueError, TypeError, KeyError, SyntaxError, TokenError, OverflowError, RecursionError, MemoryError)
"""What NumPy raises for a header that is no header: it is read as Python's literals."""


def check_file(file: Path, expected: str = "", kind: type[UserError] = DataError) -> int:
    """Return the size in bytes of a regular file; refuse anything else without opening it.

    Args:
        file: Where it should be.
        expected: What it should hold, for messages.
        kind: What is raised.

    Raises:
        UserError: It does not exist, cannot be read, or is a folder, a pipe or a device.
    """
    wanted = f"; expected {expected}" if expected else ""
    try:
        found = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        raise kind(f"{file}: no such file{wanted}") from None
    except (OSError, ValueError) as error:  # ValueError: no name can hold a zero byte
        raise kind(f"{file}: cannot be read: {said(error)}{wanted}") from error
    if not stat.S_ISREG(found.st_mode):
        what = KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise kind(f"{file}: is {what}{wanted or '; expected a regular file'}")
    return found.st_size


@contextmanager
def failing(what: str, kind: type[UserError] = DataError) -> Iterator[None]:
    """Turn an error of the operating system within the block into one line: ``what`` failed, and why."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {said(error)}") from error


def said(error: BaseException) -> str:
    """Return what an error of Python or of a library says, as one line that is not too long."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = " ".join(text.split()) or type(error).__name__
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def open_array(file: Path, expected: str = "") -> npt.NDArray[Any]:
    """Map a ``.npy`` file [n, ...], after its header was compared with its size.

    Raises:
        DataError: It is no such file, its header is damaged, or it is longer or shorter than its header says.
    """
    size = check_file(file, expected)
    if not size:
        raise DataError(f"{file}: is empty (0 bytes); expected {expected or 'an array saved by numpy.save'}")
    try:
        with file.open("rb") as stream:
            return _mapped(stream, file, size)
    except (OSError, *HEADER_ERRORS) as error:
        reason = f" as {expected} ({said(error)})" if expected else f": {said(error)}"
        raise DataError(f"{file}: cannot be read{reason}") from error


def _mapped(stream: BinaryIO, file: Path, size: int) -> npt.NDArray[Any]:
    shape, is_fortran, dtype = _header(stream)
    start = stream.tell()
    needed = start + math.prod(shape) * dtype.itemsize
    if needed != size:
        raise ValueError(f"for {dtype} of shape {_shown(shape)} expected a file size of {needed} bytes, got {size}")
    if size == start:  # an empty array cannot be mapped
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, "r", start, shape, "F" if is_fortran else "C")


def _header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type that the header of a ``.npy`` file names."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the format")
    if version == (1, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    else:  # 3.0 has the same layout, with names in UTF-8
        shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    if dtype.hasobject:
        raise ValueError("its header names Python objects")
    if dtype.kind == "V" or not dtype.itemsize:
        raise ValueError(f"its header names the type {dtype}")
    if not all(type(length) is int and 0 <= length < 2**63 for length in shape) or math.prod(shape) >= 2**63:
        raise ValueError(f"its header names the shape {_shown(shape)}")
    return shape, is_fortran, dtype


def _shown(shape: tuple[Any, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 60 else f"{text[:60]}..."


def names_in(folder: Path) -> list[str]:
    """Return what is in a folder, sorted by name; names of folders end in ``/``.

    Raises:
        DataError: It cannot be read.
    """
    try:
        with os.scandir(folder) as found:
            return sorted(f"{item.name}/" if item.is_dir() else item.name for item in found)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: cannot be read: {said(error)}") from error


def shipped_folder(source: str, installed: str | None = None) -> Path:
    """Return a folder of files that come with flexray, by its name in the source tree and in an installed package."""
    package = Path(__file__).resolve().parents[1]
    there = package / (installed or source)
    return there if there.is_dir() else package.parents[1] / source
