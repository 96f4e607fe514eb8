"""Shaded pictures of meshes from cameras around them, by ray casting with Intel's Embree: no GPU, no display.

The projection is orthographic. The centre of a mesh's bounding box is moved to the origin and its farthest vertex
scaled to distance 1; a picture shows the square from -1.05 to 1.05. So a silhouette of area A covers A (size / 2.1)^2
pixels.

Shapes: v = vertices, f = triangles, r = rays, s = picture size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flexray.core.errors import DataError
from flexray.data.off import Mesh

FloatArray = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]

HALF_WIDTH = 1.05
BACKGROUND = 255
AMBIENT, HEADLIGHT, LAMP = 50.0, 120.0, 60.0
"""Brightness of unlit surfaces, of the light at the camera and of the lamp: together below the background."""
LAMP_XYZ = np.array([-0.48, 0.64, 0.6], dtype=np.float32)
"""Direction of the lamp from the camera: left, above, behind."""


@dataclass(frozen=True)
class Cameras:
    """Cameras on a circle around the up axis, looking at the origin.

    Args:
        views: Number of cameras, 360/views degrees apart, counterclockwise seen from above.
        elevation: Degrees above the horizon.
        size: s, pixels on a side of a picture.
        samples: Rays on a side of a pixel; their brightness is averaged.
        up: The meshes' up axis: ``x``, ``y`` or ``z``.
    """

    views: int = 12
    elevation: float = 30.0
    size: int = 224
    samples: int = 2
    up: str = "z"

    def axes(self, view: int) -> FloatArray:
        """Return the directions right, up and towards the camera of one view as rows [3, 3]."""
        azimuth, elevation = 2 * math.pi * view / self.views, math.radians(self.elevation)
        sin_a, cos_a, sin_e, cos_e = math.sin(azimuth), math.cos(azimuth), math.sin(elevation), math.cos(elevation)
        right, above = (-sin_a, cos_a, 0.0), (-sin_e * cos_a, -sin_e * sin_a, cos_e)
        return np.array([right, above, (cos_e * cos_a, cos_e * sin_a, sin_e)], dtype=np.float32)


class Scene:
    """One mesh, ready for pictures.

    Raises:
        DataError: All corners of the mesh are one point.
    """

    def __init__(self, mesh: Mesh, cameras: Cameras) -> None:
        from embreex.mesh_construction import TriangleMesh
        from embreex.rtcore_scene import EmbreeScene

        self._cameras = cameras
        self._scene: Any = EmbreeScene(robust=True)
        TriangleMesh(self._scene, corners(mesh, cameras.up))

    def picture(self, view: int) -> Picture:
        """Return the shaded picture [s, s], grey on white, of one view (0-based)."""
        cameras = self._cameras
        axes, rays = cameras.axes(view), cameras.size * cameras.samples
        centres = ((np.arange(rays, dtype=np.float32) + 0.5) / rays * 2 - 1) * HALF_WIDTH
        x, y = np.meshgrid(centres, -centres)  # the first row of a picture is its top
        origins_r3 = x.reshape(-1, 1) * axes[0] + y.reshape(-1, 1) * axes[1] + 2 * axes[2]
        directions_r3 = np.ascontiguousarray(np.broadcast_to(-axes[2], origins_r3.shape))
        seen = self._scene.run(origins_r3, directions_r3, output=True)
        hit = seen["primID"] >= 0
        grey_r = np.full(len(hit), BACKGROUND, dtype=np.float32)
        grey_r[hit] = shade(seen["Ng"][hit] @ axes.T)
        size, part = cameras.size, cameras.samples
        grey = grey_r.reshape(size, part, size, part).mean(axis=(1, 3))
        picture: Picture = np.rint(grey).astype(np.uint8)
        return picture


def corners(mesh: Mesh, up: str) -> FloatArray:
    """Return the triangles' corners [f, 3, 3], z up, centred, within distance 1."""
    corners_fc3 = mesh.vertices_v3[mesh.triangles_f3]
    corners_fc3 = np.roll(corners_fc3, {"z": 0, "y": 1, "x": 2}[up], axis=2)
    low, high = corners_fc3.min(axis=(0, 1)), corners_fc3.max(axis=(0, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        corners_fc3 = corners_fc3 - (low + high) / 2
        radius = np.sqrt((corners_fc3**2).sum(axis=2).max())
    if not 0 < radius < math.inf:
        raise DataError(f"its corners are all one point, or too far apart; expected a surface, got extent {radius:g}")
    scaled_fc3: FloatArray = (corners_fc3 / radius).astype(np.float32)
    return scaled_fc3


def shade(normals_r3: FloatArray) -> FloatArray:
    """Return the brightness of surfaces by their normals, of any length and side, in the camera's axes."""
    length_r = np.sqrt((normals_r3**2).sum(axis=1)).clip(min=np.finfo(np.float32).tiny)
    side_r = np.where(normals_r3[:, 2] < 0, -1, 1) / length_r  # ModelNet's triangles face either way
    normals_r3 = normals_r3 * side_r[:, None]
    lamp_r = (normals_r3 @ LAMP_XYZ).clip(min=0)
    grey_r: FloatArray = (AMBIENT + HEADLIGHT * normals_r3[:, 2] + LAMP * lamp_r).astype(np.float32)
    return grey_r
