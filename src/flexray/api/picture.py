"""Figures that Jupyter shows."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

DPI = 110


class Picture(Figure):
    """A figure of the report, which Jupyter shows whether or not pyplot was imported."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=DPI)
        return file.getvalue()
