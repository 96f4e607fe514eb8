"""Objects seen from several sides, one view per party: ModelNet40.

    FOLDER/CLASS/SPLIT/ITEM/view_01.png                        a folder for each object, or
    FOLDER/CLASS/SPLIT/ITEM.obj.shaded_v001.png                all objects in one
    FOLDER/SPLIT/CLASS/...                                     either of them, in this order

SPLIT is ``train`` and ``test`` (or ``val``). A picture's name ends with the number of its view.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from flexray.core.checks import FEW, MANY, whole
from flexray.core.errors import ConfigError, DataError
from flexray.data.base import Split
from flexray.data.folders import entries, found_in, split_folders
from flexray.data.picture_data import Listing, PictureData, Sample

LAYOUT = (
    "looked for CLASS/train/ITEM/VIEW.png, CLASS/train/ITEM_VIEW.png and train/CLASS/..., with test/ or val/ beside"
)
NUMBER = re.compile(r"(\d+)\D*$")
Item = tuple[str, dict[int, str]]
"""Name of an object, and the file of every view."""


@dataclass
class Views(PictureData):
    """Parties hold one view each of every object, and read no other.

    Args:
        views: Number of views; every object must have as many.
        num_classes: Classes of the stand-in.
    """

    views: int = 12
    num_classes: int | None = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("dataset.views", self.views, 1, FEW)
        whole("dataset.num_classes", self.num_classes, 2, MANY)
        self._numbers: tuple[int, ...] = ()

    def _all_parties(self) -> tuple[str, ...]:
        if self.path:
            _ = self._listed  # which sets the numbers
        return tuple(f"view_{number:02d}" for number in self._numbers or range(1, self.views + 1))

    def _part(self, place: int) -> tuple[int, int, int, int]:
        return 0, 0, *self._size

    def _picture(self, place: int) -> int:
        return place

    def _list(self, root: Path) -> Listing:
        classes, folders = class_folders(root)
        found = {
            split: [(label, item) for label, folder in enumerate(places) for item in _items(folder)]
            for split, places in folders.items()
        }
        self._numbers = self._check_views(
            [(folders[s][label], item) for s, part in found.items() for label, item in part]
        )
        return classes, {
            split: [
                Sample(f"{classes[label]}/{item}", label, tuple(views[n] for n in self._numbers))
                for label, (item, views) in part
            ]
            for split, part in found.items()
        }

    def _check_views(self, items: Sequence[tuple[Path, Item]]) -> tuple[int, ...]:
        """Return the numbers of the views; every object must have all of them, as many as there are parties."""
        numbers = sorted(set().union(*(views for _, (_, views) in items)))
        if len(numbers) > self.views:
            extra = numbers[self.views]
            where = next(views[extra] for _, (_, views) in items if extra in views)
            raise DataError(
                f"{where}: there are {len(numbers)} views ({numbers[0]} to {numbers[-1]}), more than"
                f" the {self.views} parties of dataset.views"
            )
        for folder, (item, views) in items:
            lacking = [number for number in numbers if number not in views]
            if lacking:
                raise DataError(f"{folder}: object '{item}' has no view {lacking[0]}, which others have")
        if len(numbers) < self.views:
            shown = ", ".join(map(str, numbers))
            raise ConfigError(f"dataset.views: expected the number of views that there are, {shown}; got {self.views}")
        return tuple(numbers)


def class_folders(root: Path) -> tuple[list[str], Mapping[Split, list[Path]]]:
    """Return the classes, sorted, and for every split their folders, in either order of SPLIT and CLASS."""
    top = entries(root)[0]
    splits = split_folders(top)
    if splits is not None:
        classes = sorted(set().union(*(entries(root / name)[0] for name in splits.values())))
        places = {split: [root / name / c for c in classes] for split, name in splits.items()}
    else:
        classes, inner = top, [split_folders(entries(root / name)[0]) for name in top]
        splits = next((found for found in inner if found is not None), None)
        if splits is None:
            raise DataError(f"{root}: {LAYOUT}; {found_in(root)}")
        places = {split: [root / c / name for c in classes] for split, name in splits.items()}
    if not classes:
        raise DataError(f"{root}: {LAYOUT}; {found_in(root)}")
    for folder in chain(*places.values()):
        if not os.path.isdir(folder):
            raise DataError(f"{folder}: no such folder, but other classes and splits have one")
    return classes, places


def _items(folder: Path) -> Iterator[Item]:
    """Yield the objects of a class in a split, by name, with their pictures by the number of the view.

    An object is named by its folder, or by the part of a file's name before the number.
    """
    folders, pictures = entries(folder)
    files: list[tuple[str | None, str]] = [(None, name) for name in pictures]
    files += [(item, os.path.join(item, name)) for item in folders for name in entries(folder / item)[1]]
    items: dict[str, dict[int, str]] = {}
    for item, name in files:
        file, stem = os.path.join(folder, name), os.path.splitext(os.path.basename(name))[0]
        match = NUMBER.search(stem)
        if match is None:
            raise DataError(f"{file}: expected a name that ends with the number of the view")
        views = items.setdefault(stem[: match.start()] if item is None else item, {})
        first = views.setdefault(int(match[1]), file)
        if first != file:
            raise DataError(f"{file}: is view {int(match[1])}, as {os.path.basename(first)} is")
    for item in folders:
        if item not in items:
            raise DataError(f"{folder / item}: has no pictures of the object's views")
    if not items:
        raise DataError(f"{folder}: {LAYOUT}; {found_in(folder)}")
    yield from sorted(items.items())
