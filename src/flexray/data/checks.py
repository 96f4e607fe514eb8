"""Checks of a dataset's arguments, files and features. Every message names the key or the file.

Shapes: n = samples.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.checks import number, shown, whole
from flexray.core.errors import ConfigError, DataError, UserError
from flexray.core.files import check_file, open_array, said
from flexray.data.base import Array
from flexray.tasks import Loss, Task

_NOT_PARTIES = ("ids", "labels", "server")


def check_split(val_fraction: float, split_seed: int) -> None:
    """Refuse a fraction or a seed that cannot draw a validation split."""
    number("dataset.val_fraction", val_fraction, low=0, below=1)
    whole("dataset.split_seed", split_seed, low=0)


def check_test_split(test_fraction: float, val_fraction: float) -> None:
    """Refuse a fraction that cannot draw a test split or leaves no training samples."""
    if number("dataset.test_fraction", test_fraction, above=0, below=1) + val_fraction >= 1:
        raise ConfigError(
            "dataset.test_fraction and dataset.val_fraction: expected a sum of less than 1,"
            f" got {shown(test_fraction)} + {shown(val_fraction)}"
        )


def check_task(loss: Loss, num_outputs: int | None) -> None:
    """Refuse an unknown loss and a number of outputs that does not suit it."""
    is_classification = Task(loss, 1).is_classification
    if num_outputs is not None and whole("dataset.num_outputs", num_outputs, low=1) > 1 and not is_classification:
        raise ConfigError(f"dataset.num_outputs: expected 1 for loss '{loss}', got {shown(num_outputs)}")


def check_path(key: str, path: Any) -> None:
    """Refuse anything but a path or None."""
    if not isinstance(path, str | os.PathLike | None):
        raise ConfigError(f"{key}: expected a path, got {shown(path)}")


def check_party_name(name: str, where: str, error: type[UserError] = ConfigError) -> None:
    """Refuse names that are reserved or hold other characters than letters, digits and ``_``."""
    if not re.fullmatch(r"[A-Za-z0-9_]+", name) or name in _NOT_PARTIES:
        taken = ", ".join(f"'{word}'" for word in _NOT_PARTIES)
        raise error(f"{where}: '{name}' cannot name a party; expected letters, digits and '_', and none of {taken}")


def name_list(key: str, names: Sequence[str]) -> list[str]:
    """Return the names as a plain list; refuse a bare string, an empty list and a name given twice."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f"{key}: expected a list of names, got {shown(names)}")
    plain = [str(name) for name in names]
    if not plain:
        raise ConfigError(f"{key}: expected at least one name, got an empty list")
    twice = [name for name, count in Counter(plain).items() if count > 1]
    if twice:
        raise ConfigError(f"{key}: '{twice[0]}' is listed twice")
    return plain


def plain_mapping(key: str, given: Any) -> dict[str, Any]:
    """Return a mapping from party names as a plain dictionary, empty for None."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{key}: expected a mapping from party names, got {shown(given)}")
    return {str(name): value for name, value in (given or {}).items()}


@contextmanager
def reading(file: Path, expected: str) -> Iterator[None]:
    """Turn any error while a file is read into one line that names the file."""
    if not check_file(file, expected):
        raise DataError(f"{file}: is empty (0 bytes); expected {expected}")
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError, EOFError, NotImplementedError, MemoryError, csv.Error) as error:
        raise DataError(f"{file}: cannot be read as {expected} ({said(error)})") from error


def open_rows(file: Path) -> Array:
    """Map a ``.npy`` file [n, ...] of at least one row."""
    array = open_array(file, "an array of numbers saved by numpy.save, with one row per sample")
    if array.ndim == 0 or not len(array):
        raise DataError(f"{file}: has no rows (shape {array.shape})")
    return array


def check_features(array_n: Array, where: str, first_row: int = 0) -> None:
    """Refuse numbers without a feature, and NaN and infinity; ``where`` names file and party."""
    if array_n.ndim < 2 or 0 in array_n.shape[1:]:
        raise DataError(f"{where}: has no features (shape {array_n.shape}); expected [rows, features]")
    if not np.issubdtype(array_n.dtype, np.inexact):
        return
    flat = array_n.reshape(len(array_n), -1)
    with np.errstate(over="ignore", invalid="ignore"):  # the sum of finite numbers may overflow; inf - inf may occur
        if np.isfinite(flat.sum(dtype=np.float64)):
            return
    bad = np.argwhere(~np.isfinite(flat))
    if bad.size:
        row, column = bad[0]
        found = f"row {first_row + row}, feature {column} is {flat[row, column]}"
        raise DataError(f"{where}: {found}; expected finite numbers")
