"""A run folder as it travels between machines that share no disk: the content of its files, by their names."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from flexray.core.errors import RunFolderError
from flexray.core.runfolder import CONFIGURATION_FILE, SUMMARY_FILE

Parcel = Mapping[str, npt.NDArray[np.uint8]]
"""Bytes of each file, by its path in the folder; Ray hands arrays over without copying them."""
LAST = (SUMMARY_FILE, CONFIGURATION_FILE)
"""What says that a run has ended is written when all else is there."""


def pack(folder: Path) -> Parcel:
    """Return all files in a folder, at any depth; links are left out. An absent folder has none."""
    return {
        path.relative_to(folder).as_posix(): np.fromfile(path, np.uint8)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def unpack(parcel: Parcel, folder: Path, before: Collection[str] = ()) -> None:
    """Write the files of a parcel into a folder, each whole or not at all, the summary last.

    Args:
        parcel: The files.
        folder: Where; it may be new.
        before: Names of files that were packed there earlier; of these, what is not in the parcel is deleted.

    Raises:
        RunFolderError: A name leads out of the folder, or a file cannot be written.
    """
    names = [*(name for name in parcel if name not in LAST), *(name for name in LAST if name in parcel)]
    try:
        for name in (*LAST, *(name for name in before if name not in parcel)):
            _within(folder, name).unlink(missing_ok=True)
        for name in names:
            _write(_within(folder, name), parcel[name])
    except OSError as error:
        raise RunFolderError(f"{error.filename or folder}: cannot be written: {error.strerror or error}") from error


def _write(path: Path, content: npt.NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        content.tofile(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _within(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        raise RunFolderError(f"{folder}: expected the name of a file in it, got {name!r}")
    return folder / parts


def renamed(parcel: Parcel, old: str, new: str, names: Collection[str]) -> Parcel:
    """Return the parcel with a text replaced in some of its files, such as the folder where they were written."""
    own = {
        name: content.tobytes().replace(os.fsencode(old), os.fsencode(new))
        for name, content in parcel.items()
        if name in names
    }
    return {**parcel, **{name: np.frombuffer(content, np.uint8) for name, content in own.items()}}
