"""Which layout a path holds."""

from __future__ import annotations

from collections.abc import Callable
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
    if arrays.split_folders(path):
        return Layout("bundle", tuple(arrays.files(path)), partial(arrays.read, path, text))
    raise DataError(f"dataset.path: {path}: looked for {'; '.join(LAYOUTS)}; found {_contents(path)}")


def _mmsa(file: Path) -> Layout:
    return Layout("MMSA", (file,), partial(mmsa.read, file))


def _contents(folder: Path) -> str:
    names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in folder.iterdir())
    if not names:
        return "an empty folder"
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
