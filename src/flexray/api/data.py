"""Tables and arrays that are given in place of files: written into the run folder, in formats that flexray reads."""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import ConfigError, DataError, RunFolderError, UserError

NAME = re.compile(r"\w[\w.-]*")
TIMES = ("time", "time_s")
"""Names of a trace's column of seconds."""


def write_data(folder: Path, data: Mapping[str, Any], goes_on: bool = False) -> None:
    """Write data into a folder.

    Args:
        folder: The folder, which is made if there is data.
        data: Tables and arrays by the names of their files, as in :class:`flexray.config.given.Given`.
        goes_on: A run goes on with the data that is there; other data is refused.

    Raises:
        flexray.core.errors.UserError: One cannot be written, or is other data than the run began with.
    """
    for name, value in data.items():
        path = folder / name
        if path.suffix == ".parquet":
            _write(path, partial(_save_table, value), path.stem, goes_on)
        elif path.suffix == ".csv":
            _write(path, partial(_save_trace, value), path.stem, goes_on)
        elif path.suffix == ".npy":
            _write_array(path, value, path.stem, goes_on)
        else:
            _write_arrays(path, value, name, goes_on)


def _write_arrays(folder: Path, arrays: Mapping[str, Any], key: str, goes_on: bool) -> None:
    """Write ``{"train": {"a": array}}`` as ``train/a.npy``."""
    for name, value in arrays.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigError(f"{key}: expected names of letters, digits and _, got {name!r}")
        if isinstance(value, Mapping):
            _write_arrays(folder / name, value, f"{key}.{name}", goes_on)
        else:
            _write_array(folder / f"{name}.npy", value, f"{key}.{name}", goes_on)


def _write_array(path: Path, value: Any, key: str, goes_on: bool) -> None:
    array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)

    def save(to: Path) -> None:
        with to.open("wb") as file:
            np.save(file, array, allow_pickle=False)

    _write(path, save, key, goes_on)


def _write(path: Path, save: Callable[[Path], Any], key: str, goes_on: bool) -> None:
    """Write a file whole, or compare it with the one that is there."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(temporary)
        if goes_on and path.exists() and not filecmp.cmp(temporary, path, shallow=False):
            raise RunFolderError(f"the run began with other data, in {path}; expected the same")
        os.replace(temporary, path)
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be written: {error.strerror or error}") from error
    except UserError as error:
        raise type(error)(f"{key}: {error}") from error
    except (ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{key}: cannot be stored as {path.suffix[1:]}: {reason}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _pandas(frame: Any) -> Any:
    return frame if hasattr(frame, "to_parquet") else frame.to_pandas()


def _save_table(frame: Any, path: Path) -> None:
    """Write a table's rows; a named index is a column."""
    frame = _pandas(frame)
    frame = frame.reset_index() if any(name is not None for name in frame.index.names) else frame
    for name in frame.columns:
        if not isinstance(name, str):
            raise DataError(f"column {name!r}: expected a text as its name")
    frame.to_parquet(path, index=False)


def _save_trace(frame: Any, path: Path) -> None:
    """Write a trace; without a column of times, its index has them: seconds from 0, or dates."""
    frame = _pandas(frame)
    if not {*TIMES} & {*frame.columns}:
        times = frame.index
        times = (times - times[0]).total_seconds() if hasattr(times, "tz") else times
        frame = frame.set_axis(times, axis="index").rename_axis(TIMES[0]).reset_index()
    frame.to_csv(path, index=False)
