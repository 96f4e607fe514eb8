"""Pictures of meshes: silhouettes of known area, OFF files as they are found, resuming, faults."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.path import Path as Polygon
from PIL import Image
from scipy.spatial import ConvexHull
from scipy.special import ellipe

from flexray.core.errors import DataError
from flexray.data import render
from flexray.data.off import read_off
from flexray.data.raycast import HALF_WIDTH
from helpers.typed import Typed

CUBE = [list(corner) for corner in itertools.product((0, 1), repeat=3)]
CUBE_FACES = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
SOLID = np.array([[0, 0, 0], [3, 0, 0], [0.5, 2, 0], [0.3, 0.4, 1.7]])
SOLID_FACES = [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]


def write_off(
    path: Path, vertices: Sequence[Sequence[float]], faces: Sequence[Sequence[int]], head: str = "OFF\n"
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [" ".join(map(repr, map(float, v))) for v in vertices]
    rows += [" ".join(map(str, [len(f), *f])) for f in faces]
    path.write_text(f"{head}{len(vertices)} {len(faces)} 0\n" + "\n".join(rows) + "\n", encoding="ascii")
    return path


def torus(ring: float, tube: float, parts: int = 128) -> tuple[np.ndarray, list[list[int]]]:
    a, b = np.meshgrid(np.arange(parts), np.arange(parts), indexing="ij")
    u, w = 2 * math.pi * a / parts, 2 * math.pi * b / parts
    xyz = np.stack([(ring + tube * np.cos(w)) * np.cos(u), (ring + tube * np.cos(w)) * np.sin(u), tube * np.sin(w)], -1)

    def at(i: int, j: int) -> int:
        return i % parts * parts + j % parts

    return xyz.reshape(-1, 3), [
        [at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)] for i in range(parts) for j in range(parts)
    ]


def views(folder: Path) -> list[np.ndarray]:
    files = sorted(folder.glob("view_*.png"))
    assert [f.name for f in files] == [f"view_{v:02d}.png" for v in range(12)]
    return [np.asarray(Image.open(file)) for file in files]


def towards(view: int, elevation: float = math.pi / 6) -> np.ndarray:
    """Direction from the object to the camera, from the definition of azimuth and elevation."""
    azimuth = math.radians(30 * view)
    flat = math.cos(elevation)
    return np.array([flat * math.cos(azimuth), flat * math.sin(azimuth), math.sin(elevation)])


def area(picture: np.ndarray, radius: float) -> float:
    """Area of a silhouette in units of the mesh; with one ray a pixel, a pixel is in or out."""
    return float((picture < 255).sum()) * (2 * HALF_WIDTH * radius / len(picture)) ** 2


@pytest.fixture(scope="module")
def solids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cube, torus and tetrahedron, rendered by the command with one ray a pixel in two processes."""
    root = tmp_path_factory.mktemp("solids")
    write_off(root / "in/cube/train/cube_0001.off", CUBE, CUBE_FACES)
    write_off(root / "in/torus/test/torus_0001.off", *torus(1.0, 0.2))
    write_off(root / "in/solid/train/solid_0001.off", SOLID.tolist(), SOLID_FACES)
    command = [sys.executable, "-m", "flexray.data.render", root / "in", "-o", root / "out"]
    options = ["--views", "12", "--size", "224", "--samples", "1", "--workers", "2"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"{root / 'out'}: 36 pictures rendered, 0 were there\n"
    return root / "out"


def test_silhouettes_of_a_cube_have_the_exact_area(solids: Path) -> None:
    for view, picture in enumerate(views(solids / "cube/train/cube_0001")):
        assert picture.shape == (224, 224)
        assert area(picture, math.sqrt(3) / 2) == pytest.approx(np.abs(towards(view)).sum(), rel=0.02)


def test_silhouettes_of_a_torus_have_the_exact_area(solids: Path) -> None:
    # A band of width 2r along an ellipse of half-axes 1 and sin 30 degrees, whose curvature radius is above r.
    exact = 2 * 0.2 * 4 * ellipe(1 - math.sin(math.pi / 6) ** 2)
    radius = math.hypot(1.2, 0)
    for picture in views(solids / "torus/test/torus_0001"):
        assert area(picture, radius) == pytest.approx(exact, rel=0.02)


def test_an_asymmetric_solid_is_seen_where_it_is_30_degrees_apart(solids: Path) -> None:
    """Against its projected outline, drawn independently: neither mirrored nor turned nor shifted."""
    centred = SOLID - (SOLID.min(axis=0) + SOLID.max(axis=0)) / 2
    radius = float(np.linalg.norm(centred, axis=1).max())
    middle = ((np.arange(224) + 0.5) / 224 * 2 - 1) * HALF_WIDTH * radius
    x, y = np.meshgrid(middle, -middle)
    areas = []
    for view, picture in enumerate(views(solids / "solid/train/solid_0001")):
        ahead = towards(view)
        right = np.cross([0, 0, 1], ahead) / np.linalg.norm(np.cross([0, 0, 1], ahead))
        flat = centred @ np.stack([right, np.cross(ahead, right)], axis=1)
        hull = ConvexHull(flat)
        inside = Polygon(flat[hull.vertices]).contains_points(np.stack([x.ravel(), y.ravel()], 1)).reshape(224, 224)
        assert area(picture, radius) == pytest.approx(hull.volume, rel=0.02)
        assert (inside == (picture < 255)).mean() > 0.998
        areas.append(hull.volume)
    assert len({round(a, 3) for a in areas}) == 12  # so that each view can be told from the others


def test_faces_are_shaded_by_their_direction_and_edges_are_smooth(tmp_path: Path) -> None:
    write_off(tmp_path / "in/cube/train/a.off", CUBE, CUBE_FACES)
    assert render.main([str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--size", "64", "--workers", "1"]) == 0
    greys, counts = np.unique(views(tmp_path / "out/cube/train/a")[1], return_counts=True)
    assert len(greys[counts > 100]) == 4  # three faces and the background
    assert len(greys) > 10


Y_UP = [[y, z, x] for x, y, z in SOLID.tolist()]


def test_another_up_axis_gives_the_same_pictures(tmp_path: Path) -> None:
    write_off(tmp_path / "z/c/train/a.off", SOLID.tolist(), SOLID_FACES)
    write_off(tmp_path / "y/c/train/a.off", Y_UP, SOLID_FACES)
    for up in "zy":
        render.main(
            [str(tmp_path / up), "-o", str(tmp_path / f"out_{up}"), "--size", "32", "--up", up, "--workers", "1"]
        )
    for one, other in zip(views(tmp_path / "out_z/c/train/a"), views(tmp_path / "out_y/c/train/a"), strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("head", ["OFF\n", "OFF", "OFF ", "off\n", "COFF\n", "# made by hand\n\nOFF # mesh\n"])
def test_headers_as_they_are_found(tmp_path: Path, head: str) -> None:
    mesh = read_off(write_off(tmp_path / "a.off", CUBE, CUBE_FACES, head))
    assert mesh.vertices_v3.tolist() == CUBE
    assert mesh.triangles_f3.shape == (12, 3)
    assert mesh.triangles_f3[:2].tolist() == [[0, 1, 3], [0, 3, 2]]


def test_the_broken_header_of_modelnet40(tmp_path: Path) -> None:
    path = write_off(tmp_path / "a.off", SOLID.tolist(), SOLID_FACES, "OFF")
    assert path.read_text().startswith("OFF4 4 0\n")
    assert read_off(path).triangles_f3.tolist() == SOLID_FACES


def test_windows_line_ends_and_colors(tmp_path: Path) -> None:
    path = tmp_path / "a.off"
    path.write_bytes(b"COFF\r\n3 1 0\r\n0 0 0 9 9 9 9\r\n1 0 0 9 9 9 9\r\n0 1 0 9 9 9 9\r\n3 0 1 2 255 0 0\r\n\r\n")
    assert read_off(path).triangles_f3.tolist() == [[0, 1, 2]]


GOOD = "OFF\n4 2 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n"
FAULTS = {
    "": "is empty",
    "solid cube\n": "not an OFF file",
    "OFF BINARY\n\0\0\0": "line 1: expected the counts of vertices, faces and edges, got 'OFF BINARY'",
    "OFF\n": "ends after its first line",
    "OFF\n4 x 0\n": "line 2: expected the counts",
    "OFF\n4 0 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n": "has no surface: 4 vertices and 0 faces",
    GOOD[:-8]: "is truncated: expected 4 vertices and 2 faces, got 5 lines",
    GOOD[:-2]: "line 8: expected a count of at least 3 and as many vertices from 0 to 3, got '3 0 1'",
    GOOD + "3 1 2 3\n": "is longer than it says",
    GOOD.replace("0 1 3", "0 1 4"): "line 8: expected a count of at least 3 and as many vertices from 0 to 3",
    GOOD.replace("0 1 3", "0 1 -3"): "line 8: expected a count",
    GOOD.replace("3 0 1 3", "2 0 1 3"): "line 8: expected a count",
    GOOD.replace("1 0 0", "1 0"): "line 4: expected three finite numbers x y z, got '1 0'",
    GOOD.replace("1 0 0", "1 zero 0"): "line 4: expected three finite numbers x y z, got '1 zero 0'",
    GOOD.replace("1 0 0", "1 nan 0"): "line 4: expected three finite numbers",
    GOOD.replace("1 0 0", "1_0 0 0"): "line 4: expected three finite numbers",
}


@pytest.mark.parametrize(("text", "expected"), FAULTS.items())
def test_a_bad_mesh_is_named(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "bad.off"
    path.write_text(text, encoding="ascii")
    with pytest.raises(DataError) as caught:
        read_off(path)
    assert str(caught.value).startswith(f"{path}: {expected}")
    assert "\n" not in str(caught.value)


Render = Callable[..., int]


def test_bad_meshes_are_reported_and_the_others_finish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meshes = tmp_path / "in"
    write_off(meshes / "c/train/good.off", CUBE, CUBE_FACES)
    write_off(meshes / "c/train/point.off", [[1, 1, 1]] * 3, [[0, 1, 2]])
    (meshes / "c/test").mkdir()
    (meshes / "c/test/cut.off").write_text(GOOD[:-8], encoding="ascii")
    (meshes / "c/test/._cut.off").write_text("of another system", encoding="ascii")
    (meshes / "readme.txt").write_text("", encoding="ascii")
    status = render.main([str(meshes), "-o", str(tmp_path / "out"), "--size", "16", "--workers", "1"])
    told = capsys.readouterr()
    assert status == 2
    assert "12 pictures rendered, 0 were there" in told.out
    lines = told.err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"flexray: {meshes}/c/test/cut.off: is truncated")
    assert lines[1].startswith(f"flexray: {meshes}/c/train/point.off: its corners are all one point")
    assert lines[2] == "flexray: 2 of 3 meshes cannot be rendered"
    assert sorted(p.name for p in (tmp_path / "out/c/train").iterdir()) == ["good"]


def test_only_missing_pictures_are_rendered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_off(tmp_path / "in/c/train/a.off", CUBE, CUBE_FACES)
    write_off(tmp_path / "in/c/train/b.off", CUBE, CUBE_FACES)
    command = [str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--size", "16", "--workers", "1"]
    assert render.main(command) == 0
    folder = tmp_path / "out/c/train/a"
    kept, lost = folder / "view_03.png", folder / "view_07.png"
    again, stamp = lost.read_bytes(), kept.stat().st_mtime_ns
    lost.unlink()
    (folder / ".view_07.png.tmp").write_bytes(again[:40])  # what a killed command leaves
    capsys.readouterr()
    assert render.main(command) == 0
    assert "1 pictures rendered, 23 were there" in capsys.readouterr().out
    assert lost.read_bytes() == again
    assert kept.stat().st_mtime_ns == stamp
    assert sorted(p.name for p in folder.iterdir()) == [f"view_{v:02d}.png" for v in range(12)]


@pytest.mark.parametrize("kind", ["nothing in it", "a folder", "a link to nowhere"])
def test_only_a_file_with_content_is_a_picture_that_is_there(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_off(tmp_path / "in/c/train/a.off", CUBE, CUBE_FACES)
    command = [str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--size", "16", "--views", "2", "--workers", "1"]
    picture = tmp_path / "out/c/train/a/view_01.png"
    assert render.main(command) == 0
    whole = picture.read_bytes()
    picture.unlink()
    {"nothing in it": picture.touch, "a folder": picture.mkdir}.get(kind, lambda: picture.symlink_to("nowhere"))()
    capsys.readouterr()
    told = (status := render.main(command), *capsys.readouterr())
    if kind == "a folder":
        assert told[2].splitlines()[0] == f"flexray: {picture}: a folder is in the way of a picture; expected none"
        assert status == 2
    else:
        assert told == (0, f"{tmp_path / 'out'}: 1 pictures rendered, 1 were there\n", "")
        assert picture.read_bytes() == whole


def test_two_meshes_of_the_same_pictures_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("m.OFF", "m.a.off", "m.off", "n.off"):
        write_off(tmp_path / "in/c/train" / name, CUBE, CUBE_FACES)
    assert render.main([str(tmp_path / "in"), "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == (
        f"flexray: {tmp_path / 'in/c/train/m.OFF'} and m.off would have the same pictures;"
        " expected another name for one\n"
    )
    assert not (tmp_path / "out").exists()


def test_flat_names_as_in_mvcnn(tmp_path: Path) -> None:
    write_off(tmp_path / "in/c/test/item_001.off", CUBE, CUBE_FACES)
    options = ["--size", "16", "--views", "3", "--flat", "--workers", "1"]
    assert render.main([str(tmp_path / "in"), "-o", str(tmp_path / "out"), *options]) == 0
    names = sorted(p.name for p in (tmp_path / "out/c/test").iterdir())
    assert names == [f"item_001.obj.shaded_v{v:03d}.png" for v in (1, 2, 3)]


def test_mistakes_are_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_off(tmp_path / "in/c/train/a.off", CUBE, CUBE_FACES)
    made = [str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--views", "1", "--size", "16", "--workers", "1"]
    assert render.main(made) == 0
    (tmp_path / "empty").mkdir()
    for arguments, expected in {
        (*made[:-3], "17"): f"--size: {tmp_path / 'out'} has pictures made with 16, got 17; use another folder",
        (str(tmp_path / "none"), "-o", "x"): f"{tmp_path / 'none'}: no such folder; expected CLASS/",
        (str(tmp_path / "empty"), "-o", "x"): f"{tmp_path / 'empty'}: has no meshes; expected CLASS/",
        (*made, "--views", "0"): "--views: expected a whole number from 1 to 10000, got '0'",
        (*made, "--elevation", "nan"): "--elevation: expected degrees from -90 to 90, got 'nan'",
        (str(tmp_path / "in"),): "the following arguments are required: -o/--output",
    }.items():
        capsys.readouterr()
        assert render.main(arguments) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"flexray: {expected}")
        assert told.count("\n") == 1


def test_without_the_extra_its_name_is_told(tmp_path: Path) -> None:
    """The library is looked for before anything starts, and nothing else of flexray imports it."""
    write_off(tmp_path / "in/c/train/a.off", CUBE, CUBE_FACES)
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('embreex', 'embreex.mesh_construction')))\n"
        "import flexray.run, flexray.config.job, flexray.data.render as r\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'embreex' else find(name, *rest)\n"
        "sys.exit(r.main(sys.argv[1:]))"
    )
    command = ["-c", program, str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    refusal = "flexray: embreex is not installed; rendering needs: pip install 'flexray[render]'\n"
    assert Typed(command, tmp_path).end() == (2, "", refusal)
