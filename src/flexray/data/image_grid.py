"""Pictures cut into a grid, one part per party: ImageNet100, or any folder of pictures by class.

FOLDER/train/CLASS/PICTURE  and  FOLDER/val/ or FOLDER/test/ the same
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flexray.core.checks import MANY, whole
from flexray.core.errors import ConfigError, DataError
from flexray.data.checks import check_path
from flexray.data.folders import SUFFIXES, chosen_classes, entries, found_in, pictures_below, split_folders
from flexray.data.picture_data import Listing, PictureData, Sample, whole_pair

LAYOUT = "looked for train/CLASS/PICTURE and val/ or test/ the same"
QUADRANTS = ("upper_left", "upper_right", "lower_left", "lower_right")


@dataclass
class ImageGrid(PictureData):
    """Parties hold the parts of one picture each.

    Args:
        grid: (rows, columns) of parts; both must divide ``size``.
        class_list: File with the name of a class folder in each line; text after the name is ignored.
        num_classes: Number of classes drawn by ``seed`` if there are more and no ``class_list`` is given.
    """

    grid: Sequence[int] = (2, 2)
    class_list: str | Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_path("dataset.class_list", self.class_list)
        self._grid = whole_pair("grid", self.grid)
        if self.num_classes is not None:
            whole("dataset.num_classes", self.num_classes, 2, MANY)
        if self.size is None:  # the largest below the default that the grid divides
            height, width = (pixels - pixels % parts for pixels, parts in zip(self._size, self._grid, strict=True))
            self._size = height, width
        for parts, pixels in zip(self._grid, self._size, strict=True):
            if pixels % parts or not pixels:
                raise ConfigError(
                    f"dataset.grid: {list(self._grid)} does not divide pictures of {self._size[0]} x {self._size[1]}"
                    " pixels (dataset.size)"
                )

    def _all_parties(self) -> tuple[str, ...]:
        rows, columns = self._grid
        if self._grid == (2, 2):
            return QUADRANTS
        return tuple(f"row{r + 1}_column{c + 1}" for r in range(rows) for c in range(columns))

    def _part(self, place: int) -> tuple[int, int, int, int]:
        height, width = (pixels // parts for pixels, parts in zip(self._size, self._grid, strict=True))
        row, column = divmod(place, self._grid[1])
        return row * height, column * width, height, width

    def _list(self, root: Path) -> Listing:
        splits = split_folders(entries(root)[0])
        if splits is None:
            raise DataError(f"{root}: {LAYOUT}; {found_in(root)}")
        train = root / splits["train"]
        folders = entries(train)[0]
        if not folders:
            raise DataError(f"{train}: {LAYOUT}; {found_in(train)}")
        class_list = None if self.class_list is None else str(self.class_list)
        classes = chosen_classes(folders, class_list, self.num_classes, self.seed)
        return classes, {split: self._of_split(root / name, classes, folders) for split, name in splits.items()}

    @staticmethod
    def _of_split(folder: Path, classes: Sequence[str], known: Sequence[str]) -> list[Sample]:
        """Return the samples of a split, class by class; every class must have some."""
        there, samples = entries(folder)[0], []
        for name in there:
            if name not in known:
                raise DataError(f"{folder / name}: no class of this name in {folder.parent / 'train'}")
        for label, name in enumerate(classes):
            if name not in there:
                raise DataError(f"{folder / name}: no such folder, but {folder.parent / 'train' / name} is there")
            pictures = pictures_below(str(folder / name))
            if not pictures:
                raise DataError(f"{folder / name}: has no pictures; expected files that end in {', '.join(SUFFIXES)}")
            samples += [Sample(path[len(str(folder)) + 1 :], label, (path,)) for path in pictures]
        return samples
