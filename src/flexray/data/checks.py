"""Checks of what a user gives a dataset: arguments, files, features. Every message names the key or the file.

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

from flexray.data.base import Array
from flexray.errors import ConfigError, DataError, UserError
from flexray.files import check_file, said
from flexray.tasks import Loss, Task

_NOT_PARTIES = ("ids", "labels", "server")


def check_split(val_fraction: float, split_seed: int) -> None:
    """Refuse a fraction and a seed that no validation split can be drawn with."""
    if not (_is_number(val_fraction) and 0 <= val_fraction < 1):
        raise ConfigError(f"dataset.val_fraction: expected at least 0 and less than 1, got {_shown(val_fraction)}")
    if not _is_whole(split_seed) or split_seed < 0:
        raise ConfigError(f"dataset.split_seed: expected a whole number, 0 or more, got {_shown(split_seed)}")


def check_splits(test_fraction: float, val_fraction: float, split_seed: int) -> None:
    """Refuse fractions and a seed that no test and validation split can be drawn with."""
    if not (_is_number(test_fraction) and 0 < test_fraction < 1):
        raise ConfigError(f"dataset.test_fraction: expected more than 0 and less than 1, got {_shown(test_fraction)}")
    check_split(val_fraction, split_seed)
    if val_fraction + test_fraction >= 1:
        raise ConfigError(
            "dataset.test_fraction and dataset.val_fraction: expected a sum of less than 1,"
            f" got {test_fraction} + {val_fraction}"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return "null" if value is None else repr(value)


def check_task(loss: Loss, num_outputs: int | None) -> None:
    """Refuse an unknown loss and a number of outputs that does not suit it."""
    limit = 2**31 - 1 if Task(loss, 1).is_classification else 1
    if num_outputs is None:
        return
    if not _is_whole(num_outputs) or not 1 <= num_outputs <= limit:
        wanted = "1" if limit == 1 else f"a whole number from 1 to {limit}"
        raise ConfigError(f"dataset.num_outputs: expected {wanted} for loss '{loss}', got {num_outputs!r}")


def check_path(key: str, path: Any) -> None:
    """Refuse what is no path; there need not be one."""
    if not isinstance(path, str | os.PathLike | None):
        raise ConfigError(f"{key}: expected a path, got {_shown(path)}")


def check_bool(**flags: bool) -> None:
    """Refuse what is neither true nor false."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ConfigError(f"dataset.{name}: expected true or false, got {value!r}")


def check_party_name(name: str, where: str, error: type[UserError] = ConfigError) -> None:
    """Refuse names that are reserved or hold other characters than letters, digits and ``_``."""
    if not re.fullmatch(r"[A-Za-z0-9_]+", name) or name in _NOT_PARTIES:
        taken = ", ".join(f"'{word}'" for word in _NOT_PARTIES)
        raise error(f"{where}: '{name}' cannot name a party; expected letters, digits and '_', and none of {taken}")


def name_list(key: str, names: Sequence[str]) -> list[str]:
    """Return the names as a plain list; refuse a bare string, an empty list and a name given twice."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f"{key}: expected a list of names, got {names!r}")
    plain = [str(name) for name in names]
    if not plain:
        raise ConfigError(f"{key}: expected at least one name, got an empty list")
    twice = [name for name, count in Counter(plain).items() if count > 1]
    if twice:
        raise ConfigError(f"{key}: '{twice[0]}' is listed twice")
    return plain


def plain_mapping(key: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a mapping from party names as a plain dictionary; none is an empty one."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{key}: expected a mapping from party names, got {given!r}")
    return {str(name): value for name, value in (given or {}).items()}


@contextmanager
def reading(file: Path, expected: str) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one line that names it."""
    if not check_file(file, expected):
        raise DataError(f"{file}: is empty (0 bytes); expected {expected}")
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError, EOFError, NotImplementedError, MemoryError, csv.Error) as error:
        raise DataError(f"{file}: cannot be read as {expected} ({said(error)})") from error


def check_features(array_n: Array, where: str, first_row: int = 0) -> None:
    """Refuse features that are not numbers, are empty, or hold NaN or infinity; ``where`` names file and party."""
    if array_n.dtype == object or not (np.issubdtype(array_n.dtype, np.number) or array_n.dtype == np.bool_):
        raise DataError(f"{where}: expected an array of numbers, got {array_n.dtype}")
    if array_n.ndim < 2 or 0 in array_n.shape[1:]:
        raise DataError(f"{where}: has no features (shape {array_n.shape}); expected [rows, features]")
    if array_n.size == 0:
        raise DataError(f"{where}: has no rows (shape {array_n.shape})")
    if not np.issubdtype(array_n.dtype, np.inexact):
        return
    flat = array_n.reshape(len(array_n), -1)
    with np.errstate(over="ignore", invalid="ignore"):  # the sum of finite numbers may overflow; inf - inf may occur
        if np.isfinite(flat.sum(dtype=np.float64)):
            return
    bad = np.argwhere(~np.isfinite(flat))
    if bad.size:
        row, column = bad[0]
        raise DataError(
            f"{where}: row {first_row + row}, feature {column} is {flat[row, column]}; expected finite numbers"
        )
