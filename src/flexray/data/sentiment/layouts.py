"""Detection of the layout at a path."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flexray.core.checks import few
from flexray.core.errors import ConfigError, DataError
from flexray.core.files import names_in
from flexray.data.sentiment import arrays, infomax, mmsa
from flexray.data.sentiment.samples import Splits

LAYOUTS = (infomax.LAYOUT, mmsa.LAYOUT, arrays.LAYOUT)


@dataclass(frozen=True)
class Layout:
    """A layout that was found: its name, all its files, and their reader."""

    name: str
    files: tuple[Path, ...]
    read: Callable[[], Splits]


def find_layout(path: Path, text: str) -> Layout:
    """Return the layout at ``path``, a folder or one pickle.

    Raises:
        ConfigError: There are two pickles of MMSA.
        DataError: There is nothing, or no known layout.
    """
    if path.suffix == ".pkl" and path.name not in infomax.FILES.values() and not os.path.isdir(path):
        return _mmsa(path)
    if os.path.isfile(path):
        told = "name its folder" if path.name in infomax.FILES.values() else f"expected a folder or {mmsa.LAYOUT}"
        raise DataError(f"dataset.path: {path}: is one file; {told}")
    if not os.path.isdir(path):
        raise DataError(f"dataset.path: {path}: no such folder or pickle; looked for {'; '.join(LAYOUTS)}")
    if found := [path / name for name in infomax.FILES.values() if os.path.exists(path / name)]:
        return Layout("Multimodal-Infomax", tuple(found), partial(infomax.read, path))
    found = [path / folder / name for folder in (".", "Processed") for name in mmsa.NAMES]
    found = [file for file in found if os.path.exists(file)]
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
    names = names_in(folder)
    inside = [few(names_in(folder / name), 3) if name.endswith("/") else "" for name in names]
    shown = [f"{name} ({content})" if content else name for name, content in zip(names, inside, strict=True)]
    return few(shown, 3) or "an empty folder"
