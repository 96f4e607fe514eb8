"""Which layout a path holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flexray.data.sentiment import arrays, infomax, mmsa
from flexray.data.sentiment.samples import Splits
from flexray.errors import ConfigError, DataError

LAYOUTS = (infomax.LAYOUT, mmsa.LAYOUT, arrays.LAYOUT)


@dataclass(frozen=True)
class Layout:
    """A layout that was found.

    Args:
        name: Its name.
        files: All files that it is read from.
        read: Reads them.
    """

    name: str
    files: tuple[Path, ...]
    read: Callable[[], Splits]


def find_layout(path: Path, text: str) -> Layout:
    """Return the layout at ``path``, a folder or one pickle.

    Raises:
        ConfigError: Two pickles of MMSA are there.
        DataError: There is nothing, or no layout that flexray knows.
    """
    if path.is_file() and path.suffix == ".pkl" and path.name not in infomax.FILES.values():
        return _mmsa(path)
    if path.is_file():
        told = "name its folder" if path.name in infomax.FILES.values() else f"expected a folder or {mmsa.LAYOUT}"
        raise DataError(f"dataset.path: {path}: is one file; {told}")
    if not path.is_dir():
        raise DataError(f"dataset.path: {path}: no such folder or pickle; looked for {'; '.join(LAYOUTS)}")
    if found := [path / name for name in infomax.FILES.values() if (path / name).is_file()]:
        return Layout("Multimodal-Infomax", tuple(found), partial(infomax.read, path))
    found = [path / folder / name for folder in (".", "Processed") for name in mmsa.NAMES]
    found = [file for file in found if file.is_file()]
    if len(found) > 1:
        raise ConfigError(f"dataset.path: {found[0]} and {found[1]} are both there; name the file that is meant")
    if found:
        return _mmsa(found[0])
    if arrays.is_layout(path):
        return Layout("bundle", tuple(arrays.files(path)), partial(arrays.read, path, text))
    raise DataError(f"dataset.path: {path}: looked for {'; '.join(LAYOUTS)}; found {_contents(path)}")


def _mmsa(file: Path) -> Layout:
    return Layout("MMSA", (file,), partial(mmsa.read, file))


def _contents(folder: Path) -> str:
    names = [_shown(entry) for entry in sorted(folder.iterdir())]
    return _few(names) if names else "an empty folder"


def _shown(entry: Path) -> str:
    if not entry.is_dir():
        return entry.name
    inside = sorted(f"{part.name}/" if part.is_dir() else part.name for part in entry.iterdir())
    return f"{entry.name}/ ({_few(inside)})" if inside else f"{entry.name}/"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
