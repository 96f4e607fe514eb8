"""Reading columns of CSV and Parquet files, strictly.

Shapes: n = rows of a file.
"""

from __future__ import annotations

import csv
import reprlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
from pyarrow import types
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv
from pyarrow.parquet import ParquetFile, read_schema

from flexray.data.checks import reading
from flexray.errors import ConfigError, DataError, near_match

FloatArray = npt.NDArray[np.float64]

LARGEST = float(np.finfo(np.float32).max)


def header(file: Path, wanted: Mapping[str, str]) -> list[str]:
    """Return the column names of a file; refuse ``wanted`` columns (-> the key at fault) that it does not have once."""
    if file.suffix not in (".csv", ".parquet"):
        raise DataError(f"{file}: expected a file name that ends in .csv or .parquet")
    with reading(file, "a CSV or Parquet table"):
        if file.suffix == ".csv":
            with file.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
                header = next((row for row in csv.reader(lines) if row), [])
        else:
            # pandas stores its row labels under such names.
            header = [name for name in read_schema(file).names if not name.startswith("__index_level_")]
    times = Counter(header)
    for column, key in wanted.items():
        if not times[column]:
            raise ConfigError(f"{key}: {file} has no column '{column}'{near_match(column, header)}")
        if times[column] > 1:
            raise DataError(f"{file}: column '{column}' occurs {times[column]} times in the header")
    return header


def read(file: Path, wanted: Mapping[str, str]) -> Any:
    """Return the ``wanted`` columns as a pyarrow table; other columns are not converted."""
    header(file, wanted)
    with reading(file, "a CSV or Parquet table"):
        if file.suffix == ".csv":
            texts = {column: pyarrow.string() for column, key in wanted.items() if key == "dataset.id"}
            table = read_csv(
                file,
                ReadOptions(use_threads=False),  # errors then name the row
                ParseOptions(newlines_in_values=True),
                ConvertOptions(include_columns=list(wanted), column_types=texts),
            )
        else:
            with ParquetFile(file) as parquet:
                table = parquet.read(list(wanted), use_threads=False)
    if not table.num_rows:
        raise DataError(f"{file}: has a header but no rows")
    return table


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
        raise DataError(f"{where}: row {bad[0]} is {shown}; expected a finite number")
    return values


def _number(value: Any) -> float:
    # float() alone would take digits of other scripts, and 1_40 for 140.
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan
