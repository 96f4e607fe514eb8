"""Folders of pictures: what is in them, always by name and never in the order in which a disk tells it."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from flexray.core.errors import ConfigError, DataError, near_match
from flexray.core.files import names_in, said
from flexray.core.seeds import generator
from flexray.data.base import SPLITS, Split
from flexray.data.checks import reading

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
SHOWN = 5


def entries(folder: str | Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the pictures in a folder, sorted; hidden ones are left out."""
    try:
        with os.scandir(folder) as found:
            items = sorted((item.name, item.is_dir()) for item in found if not item.name.startswith("."))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: cannot be read ({said(error)})") from error
    folders = [name for name, is_folder in items if is_folder]
    return folders, [name for name, is_folder in items if not is_folder and name.lower().endswith(SUFFIXES)]


def pictures_below(folder: str) -> list[str]:
    """Return the paths of all pictures in a folder and in those below it, sorted."""
    folders, pictures = entries(folder)
    deeper = [path for name in folders for path in pictures_below(os.path.join(folder, name))]
    return sorted([*(os.path.join(folder, name) for name in pictures), *deeper])


def found_in(folder: Path) -> str:
    """Return what a message tells of a folder's content."""
    names = names_in(folder)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"found {', '.join(names[:SHOWN])}{more}" if names else "found an empty folder"


def split_folders(names: Collection[str]) -> dict[Split, str] | None:
    """Return the folder of every split, or None without ``train`` and one to test on.

    ``val`` is the test split where there is no ``test``, as with ImageNet, whose test labels are secret.
    """
    if "train" not in names or not {"val", "test"} & set(names):
        return None
    if "test" not in names:
        return {"train": "train", "test": "val"}
    return {split: split for split in SPLITS if split in names}


def chosen_classes(names: Sequence[str], class_list: str | None, count: int | None, seed: int) -> list[str]:
    """Return the class folders to use, sorted: those of a list, or ``count`` drawn by ``seed`` if there are more."""
    if class_list is None:
        if count is None or len(names) <= count:
            return sorted(names)
        return sorted(generator(seed, "classes").choice(sorted(names), size=count, replace=False).tolist())
    file = Path(class_list)
    with reading(file, "a list with the name of a class folder in each line"):
        lines = file.read_text(encoding="utf-8").splitlines()
    listed = [name for line in lines if (name := _named_by(line, names))]
    for name in listed:
        if name not in names:
            raise ConfigError(f"dataset.class_list: {file} names '{name}', which has no folder{_hint(name, names)}")
    if len(set(listed)) < max(1, len(listed)):
        twice = next((name for name in listed if listed.count(name) > 1), "")
        raise ConfigError(f"dataset.class_list: {file} " + (f"names '{twice}' twice" if twice else "names no class"))
    return sorted(listed)


def _named_by(line: str, names: Collection[str]) -> str:
    """Return the class that a line names: all of it, or what comes before a comment, or its first word."""
    bare = line.split("#")[0].strip()
    return next((name for name in (line.strip(), bare, bare.partition(" ")[0]) if name in names), bare)


def _hint(name: str, names: Collection[str]) -> str:
    return near_match(name, names, list_all=False)
