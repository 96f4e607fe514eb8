"""Triangle meshes in OFF files, the format of ModelNet.

Libraries read a truncated file as a smaller mesh, so this module has its own reader.

Shapes: v = vertices, f = triangles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.core.files import check_file, failing

EXPECTED = "expected an ASCII OFF mesh: OFF, the counts of vertices and faces, then a line for each"
HEADER = re.compile(r"(?:ST)?C?N?OFF(.*)", re.IGNORECASE)
"""The keyword, which in some files of ModelNet40 is joined with the counts (``OFF490 518 0``)."""


@dataclass(frozen=True)
class Mesh:
    """Vertices [v, 3] and, by their row numbers, triangles [f, 3]."""

    vertices_v3: npt.NDArray[np.float64]
    triangles_f3: npt.NDArray[np.int64]


class _Lines:
    """The lines of a file, without comments and empty lines, with their numbers for messages."""

    def __init__(self, path: Path) -> None:
        check_file(path, "an OFF mesh")
        with failing(f"{path}: cannot be read"):
            text = path.read_bytes().decode("utf-8-sig", errors="replace")
        stripped = (line.partition("#")[0].strip() for line in text.splitlines())
        kept = [(number, line) for number, line in enumerate(stripped, 1) if line]
        self.path, self.texts, self.numbers = path, [line for _, line in kept], [number for number, _ in kept]

    def fault(self, place: int, expected: str) -> DataError:
        """Return the error about one line."""
        where = f"{self.path}: line {self.numbers[place]}"
        return DataError(f"{where}: expected {expected}, got '{self.texts[place][:60]}'")


def read_off(path: Path) -> Mesh:
    """Read a mesh; polygons are cut into fans of triangles, colours and normals ignored.

    Raises:
        DataError: The file is not an ASCII OFF mesh, ends early, or has a malformed line, which is named.
    """
    lines = _Lines(path)
    if not lines.texts:
        raise DataError(f"{path}: is empty; {EXPECTED}")
    found = HEADER.fullmatch(lines.texts[0])
    if found is None:
        raise DataError(f"{path}: not an OFF file; {EXPECTED}")
    start = 1 if found[1].strip() else 2
    if len(lines.texts) < start:
        raise DataError(f"{path}: ends after its first line; {EXPECTED}")
    vertices, faces = _counts(lines, found[1] if start == 1 else lines.texts[1], start - 1)
    there = len(lines.texts) - start
    if there != vertices + faces:
        verb = "is truncated" if there < vertices + faces else "is longer than it says"
        raise DataError(f"{path}: {verb}: expected {vertices} vertices and {faces} faces, got {there} lines of them")
    vertices_v3 = _vertices(lines, start, start + vertices)
    return Mesh(vertices_v3, _triangles(lines, start + vertices, vertices))


def _counts(lines: _Lines, text: str, place: int) -> tuple[int, int]:
    parts = text.split()
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        raise lines.fault(place, "the counts of vertices, faces and edges")
    vertices, faces = int(parts[0]), int(parts[1])
    if not vertices or not faces:
        raise DataError(f"{lines.path}: has no surface: {vertices} vertices and {faces} faces")
    return vertices, faces


def _vertices(lines: _Lines, start: int, end: int) -> npt.NDArray[np.float64]:
    try:
        vertices_v3 = np.loadtxt(lines.texts[start:end], usecols=(0, 1, 2), ndmin=2, comments=None)
        bad = np.flatnonzero(~np.isfinite(vertices_v3).all(axis=1))
    except ValueError:
        bad = np.array([v for v in range(end - start) if not _is_vertex(lines.texts[start + v])])
    if bad.size:
        raise lines.fault(start + int(bad[0]), "three finite numbers x y z")
    return vertices_v3


def _is_vertex(text: str) -> bool:
    try:
        return np.loadtxt([text], usecols=(0, 1, 2), comments=None).size == 3
    except ValueError:
        return False


def _triangles(lines: _Lines, start: int, vertices: int) -> npt.NDArray[np.int64]:
    texts = lines.texts[start:]
    try:
        faces_f4 = np.loadtxt(texts, usecols=(0, 1, 2, 3), dtype=np.int64, ndmin=2, comments=None)
    except ValueError:
        return _fans(lines, start, vertices)
    triangles_f3 = faces_f4[:, 1:]
    if (faces_f4[:, 0] == 3).all() and triangles_f3.min() >= 0 and triangles_f3.max() < vertices:
        return triangles_f3
    return _fans(lines, start, vertices)


def _fans(lines: _Lines, start: int, vertices: int) -> npt.NDArray[np.int64]:
    """Read faces line by line, polygons among them, and name a malformed one."""
    triangles = []
    for place in range(start, len(lines.texts)):
        parts = lines.texts[place].split()
        count = int(parts[0]) if parts[0].isdecimal() else 0
        corners = [int(part) for part in parts[1 : count + 1] if part.isdecimal()]
        if count < 3 or len(corners) != count or max(corners) >= vertices:
            raise lines.fault(place, f"a count of at least 3 and as many vertices from 0 to {vertices - 1}")
        triangles += [(corners[0], b, c) for b, c in pairwise(corners[1:])]
    return np.array(triangles, dtype=np.int64)
