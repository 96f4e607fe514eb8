"""NumPy matrix (``.npy``) of machines x time, as the paper's code reads it; machines are called machine_000, ..."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flexray.core.errors import DataError
from flexray.traces.cleaning import Counts, judge
from flexray.traces.files import FloatArray, MatrixTrace
from flexray.traces.formats.base import DEFAULT_STEP_S, Format, Imported, Request


class Matrix(Format):
    """A machine per row, a sample per column; --step says how long a sample lasts."""

    summary = "NumPy .npy of machines x time (fractions, or --unit percent; --step: seconds of a sample)"
    above_one = "refuse"

    def read(self, request: Request, counts: Counts) -> Imported:
        """Take the rows as they are."""
        if len(request.files) > 1:
            raise DataError(f"{request.files[1]}: expected one matrix, got {len(request.files)} files")
        matrix = MatrixTrace(request.files[0])
        request.progress(matrix.path.stat().st_size)
        return Imported(request.step_s or DEFAULT_STEP_S, self._rows(matrix, request, counts))

    def _rows(self, matrix: MatrixTrace, request: Request, counts: Counts) -> Iterator[tuple[str, FloatArray]]:
        for name, rows in matrix.rows(matrix.machines):

            def place(t: int, machine: str = name, label: str = rows.label) -> str:
                return f"{matrix.path}: machine '{machine}', {label.format(t + 1)}"

            value_t, bad_t = judge(rows.cpu_t / self.divisor(request), request.policy, counts, place)
            yield name, np.where(bad_t, np.nan, value_t)


FORMAT = Matrix()
