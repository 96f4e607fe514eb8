"""Pictures of meshes for ModelNet's view parties, without GPU or display.

``python -m flexray.data.render MODELNET_DIR -o VIEWS_DIR [--views 12] [--size 224]``

    MODELNET_DIR/CLASS/{train,test}/ITEM.off  ->  VIEWS_DIR/CLASS/{train,test}/ITEM/view_00.png .. view_11.png

Only missing pictures are rendered, each under a temporary name first, so that a stopped command can go on. A mesh that
cannot be read is named at the end, and the others are rendered.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from flexray.core.commands import Parser, command, number, whole
from flexray.core.errors import ConfigError, DataError, ResourceError, RunFolderError, UserError
from flexray.data.off import read_off
from flexray.data.raycast import Cameras, Scene

SPLITS = ("train", "val", "test")
LAYOUT = "expected CLASS/{train,test}/ITEM.off below it"
SETTINGS = ".render.json"
"""File with the settings of a folder's pictures, which must all be of one kind."""


@dataclass(frozen=True)
class Item:
    """One mesh and its missing pictures by view."""

    mesh: Path
    missing: dict[int, Path]


@command("interrupted; the same command goes on where it was")
def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status: 0, or 2 if any mesh or an argument cannot be used."""
    options = _parser().parse_args(arguments)
    cameras = Cameras(options.views, options.elevation, options.size, options.samples, options.up)
    missing = [package for package in ("embreex", "PIL") if importlib.util.find_spec(package) is None]
    if missing:
        raise ConfigError(f"{missing[0]} is not installed; rendering needs: pip install 'flexray[render]'")
    items, done = plan(options.meshes, options.output, cameras, options.flat)
    faults = render_all(items, cameras, options.workers)
    made = sum(len(item.missing) for item in items if item.mesh not in faults)
    print(f"{options.output}: {made:,} pictures rendered, {done:,} were there")
    for mesh in sorted(faults):
        print(f"flexray: {faults[mesh]}", file=sys.stderr)
    if faults:
        print(f"flexray: {len(faults)} of {len(items)} meshes cannot be rendered", file=sys.stderr)
    return UserError.exit_status if faults else 0


def plan(meshes: Path, output: Path, cameras: Cameras, flat: bool = False) -> tuple[list[Item], int]:
    """Return the meshes that lack pictures, and the number of existing pictures.

    Raises:
        UserError: There are no meshes, two have the same pictures, or the folder's pictures have other settings.
    """
    found = [path for split in SPLITS for path in meshes.glob(f"*/{split}/*.[oO][fF][fF]")]
    found = [path for path in found if not path.name.startswith(".") and path.is_file()]
    found.sort(key=lambda path: (path.with_suffix(""), path))
    if not found:
        what = "has no meshes" if meshes.is_dir() else "no such folder"
        raise DataError(f"{meshes}: {what}; {LAYOUT}")
    for one, other in pairwise(found):  # ITEM.OFF and ITEM.off are neighbours
        if one.with_suffix("") == other.with_suffix(""):
            raise DataError(f"{one} and {other.name} would have the same pictures; expected another name for one")
    _check_settings(output, {**asdict(cameras), "flat": flat})
    items, done = [], 0
    for path in found:
        pictures = _pictures(output / path.parent.relative_to(meshes), path.stem, cameras.views, flat)
        missing = {
            view: file for view, file in enumerate(pictures) if not (os.path.isfile(file) and os.path.getsize(file))
        }
        done += len(pictures) - len(missing)
        if missing:
            items.append(Item(path, missing))
    return items, done


def _pictures(folder: Path, item: str, views: int, flat: bool) -> list[Path]:
    """Return the files of one mesh's pictures, in the order of its views."""
    if flat:
        return [folder / f"{item}.obj.shaded_v{view + 1:03d}.png" for view in range(views)]
    digits = max(2, len(str(views - 1)))
    return [folder / item / f"view_{view:0{digits}d}.png" for view in range(views)]


def _check_settings(output: Path, settings: dict[str, Any]) -> None:
    """Save the settings of a new folder, or refuse to mix two kinds of pictures in one folder."""
    file = output / SETTINGS
    try:
        if not file.exists():
            output.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
            return
        before = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file}: cannot be read or written: {error}") from error
    for key, value in settings.items():
        was = before.get(key) if isinstance(before, dict) else before
        if was != value:
            raise ConfigError(f"--{key}: {output} has pictures made with {was!r}, got {value!r}; use another folder")


def render_all(items: Sequence[Item], cameras: Cameras, workers: int) -> dict[Path, str]:
    """Render missing pictures in ``workers`` processes with a bar on a terminal; return the faults by mesh."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    faults: dict[Path, str] = {}
    console = Console(stderr=True)
    columns = ("rendering", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=sum(len(item.missing) for item in items))
        for item, fault in _results(items, cameras, min(workers, len(items))):
            bar.advance(task, len(item.missing))
            if fault:
                faults[item.mesh] = fault
    return faults


def _results(items: Sequence[Item], cameras: Cameras, workers: int) -> Iterator[tuple[Item, str]]:
    """Yield finished meshes, in any order, with their fault, if any."""
    if workers <= 1:
        yield from ((item, render_item(item, cameras)) for item in items)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        futures = {pool.submit(render_item, item, cameras): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise ResourceError(
            "a rendering process was killed, maybe for want of memory; the same command goes on where it was,"
            " with fewer --workers each has more memory"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def render_item(item: Item, cameras: Cameras) -> str:
    """Render the missing pictures of one mesh; return its fault, if any."""
    from PIL import Image

    try:
        mesh = read_off(item.mesh)
        try:
            scene = Scene(mesh, cameras)
        except DataError as error:
            raise DataError(f"{item.mesh}: {error}") from error
        for view, file in item.missing.items():
            if file.is_dir():
                raise DataError(f"{file}: a folder is in the way of a picture; expected none")
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_name(f".{file.name}.tmp")
            Image.fromarray(scene.picture(view)).save(temporary, format="PNG")
            os.replace(temporary, file)
    except DataError as error:
        return str(error)
    except OSError as error:
        return f"{item.mesh}: its pictures cannot be written: {error}"
    return ""


def _parser() -> argparse.ArgumentParser:
    form, text = argparse.RawDescriptionHelpFormatter, (__doc__ or "").replace("``", "")
    parser = Parser("python -m flexray.data.render", description=text, formatter_class=form)
    add, count = parser.add_argument, whole("a whole number from 1 to 10000", low=1, high=10_000)
    angle = number("degrees from -90 to 90", low=-90, high=90)
    add("meshes", metavar="MODELNET_DIR", type=Path, help="folder of CLASS/{train,test}/ITEM.off")
    add("-o", "--output", metavar="VIEWS_DIR", type=Path, required=True, help="folder of the pictures")
    add("--views", metavar="N", type=count, default=12, help="cameras, 360/N degrees apart (default: 12)")
    add("--size", metavar="PIXELS", type=count, default=224, help="side of a picture (default: 224)")
    add("--elevation", metavar="DEGREES", type=angle, default=30.0, help="above the horizon (default: 30)")
    add("--samples", metavar="N", type=count, default=2, help="N x N rays a pixel (default: 2)")
    add("--up", choices=("x", "y", "z"), default="z", help="up axis of the meshes (default: z, as in ModelNet)")
    add("--flat", action="store_true", help="name pictures ITEM.obj.shaded_v001.png, as MVCNN does")
    add("--workers", metavar="N", type=count, default=len(os.sched_getaffinity(0)), help="processes (default: all)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
