"""Reading columns of CSV and Parquet files, strictly.

Shapes: n = rows of a file.
"""

from __future__ import annotations

import csv
import mmap
import re
import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
from pyarrow import compute, types
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv
from pyarrow.parquet import ParquetFile, read_schema

from flexray.core.errors import ConfigError, DataError, near_match
from flexray.data.checks import reading

FloatArray = npt.NDArray[np.float64]

LARGEST = float(np.finfo(np.float32).max)
HEXADECIMAL = re.compile(rb"0[xX]")
"""pyarrow reads 0x10 as 16."""


def header(file: Path, wanted: Mapping[str, str]) -> list[str]:
    """Return the column names of a file; each of ``wanted`` (column -> key, for messages) must occur once."""
    if file.suffix not in (".csv", ".parquet"):
        raise DataError(f"{file}: expected a file name that ends in .csv or .parquet")
    with reading(file, "a CSV or Parquet table"):
        if file.suffix == ".csv":
            with file.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
                names = next((row for row in csv.reader(lines) if row), [])
        else:  # pandas stores row labels under such names
            names = [name for name in read_schema(file).names if not name.startswith("__index_level_")]
    times = Counter(names)
    for column, key in wanted.items():
        if not times[column]:
            raise ConfigError(f"{key}: {file} has no column '{column}'{near_match(column, names)}")
        if times[column] > 1:
            raise DataError(f"{file}: column '{column}' occurs {times[column]} times in the header")
    return names


def read(file: Path, wanted: Mapping[str, str]) -> Any:
    """Return the ``wanted`` columns as a pyarrow table; other columns are not converted."""
    header(file, wanted)
    with reading(file, "a CSV or Parquet table"):
        if file.suffix == ".csv":
            table = _read_csv(file, list(wanted), [column for column, key in wanted.items() if key == "dataset.id"])
        else:
            with ParquetFile(file) as parquet:
                table = parquet.read(list(wanted), use_threads=False)
    if not table.num_rows:
        raise DataError(f"{file}: has a header but no rows")
    return table


def _read_csv(file: Path, wanted: list[str], texts: Sequence[str]) -> Any:
    """Return columns of a CSV; those in ``texts``, and integer columns with a hexadecimal number, stay texts."""

    def table(texts: Sequence[str]) -> Any:
        return read_csv(
            file,
            ReadOptions(use_threads=False),  # errors then name the row
            ParseOptions(newlines_in_values=True),
            ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(texts, pyarrow.string())),
        )

    found = table(texts)
    whole = [column for column in wanted if types.is_integer(found[column].type)]
    with file.open("rb") as content, mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as all_bytes:
        if not whole or not HEXADECIMAL.search(all_bytes):
            return found
    as_texts = table([*texts, *whole])
    strange = [
        name for name in whole if compute.any(compute.match_substring(as_texts[name], "x", ignore_case=True)).as_py()
    ]
    return table([*texts, *strange])


def is_numeric(column: Any) -> bool:
    """Whether a pyarrow column holds numbers or truth values."""
    kind = column.type
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def numbers(column: Any, where: str) -> FloatArray:
    """Return a column as float64; name the first row that holds no finite number."""
    values: FloatArray
    if is_numeric(column):
        values = column.cast("float64", safe=False).to_numpy()
    else:
        values = np.array([_number(value) for value in column.to_pylist()])
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if bad.size:
        value = column[int(bad[0])].as_py()
        shown = "empty" if value in (None, "") else reprlib.repr(value)
        advice = _advice(value, len(bad) == len(values))
        raise DataError(f"{where}: row {bad[0]} is {shown}; expected a finite number{advice}")
    return values


def _advice(value: Any, is_alike: bool) -> str:
    """Return advice about a value that is not a number; ``is_alike``: its whole column has none."""
    if value in (None, ""):
        return " (fill what is missing, or leave the row out)"
    if isinstance(value, date):
        return " (give dates as days or seconds since one of them)"
    return " (words have to be coded as numbers, as pandas.get_dummies does)" if is_alike else ""


def _number(value: Any) -> float:
    # float() alone accepts digits of other scripts, and 1_40 as 140.
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan
