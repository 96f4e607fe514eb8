"""Folders of pictures, always sorted by name: a disk lists them in no fixed order."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from flexray.core.checks import few
from flexray.core.errors import ConfigError, near_match
from flexray.core.files import names_in
from flexray.core.seeds import generator
from flexray.data.base import SPLITS, Split
from flexray.data.checks import reading

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff")


def entries(folder: str | Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the pictures in a folder, sorted, without hidden ones."""
    names = [name for name in names_in(Path(folder)) if not name.startswith(".")]
    folders = sorted(name[:-1] for name in names if name.endswith("/"))
    return folders, [name for name in names if name.lower().endswith(SUFFIXES)]


def pictures_below(folder: str) -> list[str]:
    """Return the paths of all pictures in a folder and in those below it, sorted."""
    folders, pictures = entries(folder)
    deeper = [path for name in folders for path in pictures_below(os.path.join(folder, name))]
    return sorted([*(os.path.join(folder, name) for name in pictures), *deeper])


def found_in(folder: Path) -> str:
    """Return a folder's content, for messages."""
    return f"found {few(names_in(folder), 5) or 'an empty folder'}"


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
            hint = near_match(name, names, list_all=False)
            raise ConfigError(f"dataset.class_list: {file} names '{name}', which has no folder{hint}")
    if len(set(listed)) < max(1, len(listed)):
        twice = next((name for name in listed if listed.count(name) > 1), "")
        raise ConfigError(f"dataset.class_list: {file} " + (f"names '{twice}' twice" if twice else "names no class"))
    return sorted(listed)


def _named_by(line: str, names: Collection[str]) -> str:
    """Return the class that a line names: the line, or the part before a comment, or its first word."""
    bare = line.split("#")[0].strip()
    return next((name for name in (line.strip(), bare, bare.partition(" ")[0]) if name in names), bare)
