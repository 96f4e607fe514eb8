"""Writes the native trace file, machine by machine, so that memory holds one machine at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.traces.parquet import METADATA

FloatArray = npt.NDArray[np.float64]


class TraceWriter:
    """A trace file that appears under its name only when it is complete.

    Args:
        path: Where; a file that is there is replaced.
        step_s: Seconds that a sample lasts, a whole number.
    """

    def __init__(self, path: Path, step_s: float) -> None:
        if path.suffix != ".parquet":
            raise DataError(f"{path}: expected a name that ends in .parquet")
        if not path.parent.is_dir():
            raise DataError(f"{path}: no such folder")
        if step_s != int(step_s) or step_s < 1:
            raise DataError(f"{path}: a step of {step_s:g} s; expected whole seconds")
        self._path, self._step_s = path, int(step_s)
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")

    def write(
        self, rows: Iterable[tuple[str, FloatArray]], source: str, synthetic: bool, cleaning: Mapping[str, int]
    ) -> None:
        """Write machines sorted by name; ``cleaning`` may still change until the last machine has come."""
        try:
            self._write(rows, source, synthetic, cleaning)
            self._part.replace(self._path)
        except OSError as error:
            raise DataError(f"{self._path}: cannot be written: {error.strerror or error}") from error
        finally:
            self._part.unlink(missing_ok=True)

    def _write(
        self, rows: Iterable[tuple[str, FloatArray]], source: str, synthetic: bool, cleaning: Mapping[str, int]
    ) -> None:
        import pyarrow
        from pyarrow import parquet

        schema = pyarrow.schema(
            [("machine", pyarrow.string()), ("time_s", pyarrow.int64()), ("cpu", pyarrow.float32())]
        )
        said = {"step_s": str(self._step_s), "source": source, "synthetic": str(synthetic).lower()}
        options: dict[str, Any] = {
            "compression": {"machine": "none", "time_s": "none", "cpu": "zstd"},
            "use_dictionary": ["machine", "cpu"],
            "column_encoding": {"time_s": "DELTA_BINARY_PACKED"},
            "write_statistics": ["machine"],
        }
        with parquet.ParquetWriter(self._part, schema, **options) as writer:
            for name, cpu_t in rows:
                time_t = np.arange(len(cpu_t), dtype=np.int64) * self._step_s
                machine_t = pyarrow.repeat(name, len(cpu_t))
                table = pyarrow.table([machine_t, time_t, cpu_t.astype(np.float32)], schema=schema)
                writer.write_table(table, row_group_size=len(cpu_t))
            said["cleaning"] = json.dumps(dict(cleaning))
            writer.add_key_value_metadata({f"{METADATA}{key}": value for key, value in said.items()})
