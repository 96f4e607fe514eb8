"""The base of picture datasets: keys, splits, stand-ins, features read ahead.

Shapes: h and w = height and width of a picture.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from flexray.core.checks import FEW, MANY, whole, yes_or_no
from flexray.core.errors import ConfigError, DataError, near_match
from flexray.data.ahead import Reader
from flexray.data.base import SPLITS, Features, FittedDataset, Outline, Split
from flexray.data.checks import check_path, check_split, name_list
from flexray.data.pictures import IMAGENET, Files, Look, PictureCache, PictureFeatures, Pictures, Source
from flexray.data.rows import draw_rows
from flexray.data.stand_in import StandIn
from flexray.tasks import LabelArray, Task

SCALES = ("unit", "imagenet")


class Sample(NamedTuple):
    """One object: its ID, its class, its picture or pictures."""

    id: str
    label: int
    files: tuple[str, ...]


Listing = tuple[list[str], dict[Split, list[Sample]]]
"""The classes, and the samples of every split."""


@dataclass
class PictureData(FittedDataset):
    """Folders of pictures, or a synthetic stand-in where no path is given.

    Args:
        path: The folder; None for the stand-in.
        size: (h, w) of the whole picture, one number for both; None: 224, of the stand-in 32.
        channels: 3 for colour, 1 for grey.
        scale: ``unit`` for values in [0, 1], ``imagenet`` to normalize them for pretrained ResNets.
        augment: Crop and flip training pictures at random, alike at all parties; evaluations use those of epoch 0.
        crop_scale: Smallest and largest part of the area in a random crop.
        middle: Central part of height and width used without a random crop.
        parties: Names of the parties that take part, in order; None: all.
        val_fraction: Part of the training samples that becomes the validation split.
        split_seed: Draws these.
        workers: Threads of each party that read ahead; 0 reads pictures when they are needed.
        batches_ahead: Number of batches each party reads ahead.
        seed: Draws classes, crops and flips.
        synthetic_train: Training samples of the stand-in.
        synthetic_test: Test samples of the stand-in.
        num_classes: Classes of the stand-in; None: 100.
    """

    path: str | Path | None = None
    size: int | Sequence[int] | None = None
    channels: int = 3
    scale: str = "imagenet"
    augment: bool = True
    crop_scale: Sequence[float] = (0.08, 1.0)
    middle: float = 0.875
    parties: Sequence[str] | None = None
    val_fraction: float = 0.0
    split_seed: int = 0
    workers: int = 1
    batches_ahead: int = 2
    seed: int = 0
    synthetic_train: int = 1600
    synthetic_test: int = 400
    num_classes: int | None = 100

    def __post_init__(self) -> None:
        check_path("dataset.path", self.path)
        check_split(self.val_fraction, self.split_seed)
        yes_or_no("dataset.augment", self.augment)
        for key in ("workers", "batches_ahead", "seed"):
            whole(f"dataset.{key}", getattr(self, key), 0)
        for key in ("synthetic_train", "synthetic_test"):
            whole(f"dataset.{key}", getattr(self, key), 2, MANY)
        if self.channels not in tuple(IMAGENET) or isinstance(self.channels, bool):
            raise ConfigError(f"dataset.channels: expected 1 or 3, got {self.channels!r}")
        if self.scale not in SCALES:
            raise ConfigError(f"dataset.scale: unknown '{self.scale}'{near_match(str(self.scale), SCALES)}")
        self._grid = (1, 1)
        self._size = whole_pair("size", self.size if self.size is not None else 224 if self.path else 32)
        self._crop = check_range("crop_scale", self.crop_scale)
        check_range("middle", [self.middle, 1.0])
        if self.parties is not None:
            self.parties = name_list("dataset.parties", self.parties)
        self._synthetic_classes = self.num_classes or 100

    @abstractmethod
    def _list(self, root: Path) -> Listing:
        """Find all samples below a folder, in the order of their names."""

    @abstractmethod
    def _all_parties(self) -> tuple[str, ...]:
        """Return the names of all possible parties."""

    @abstractmethod
    def _part(self, place: int) -> tuple[int, int, int, int]:
        """Return (top, left, h, w) of the part of its picture that the party in this place sees."""

    def _picture(self, place: int) -> int:
        """Return the number of the sample's picture that the party in this place has."""
        return 0

    def outline(self) -> Outline:
        """List the folders; no picture is read."""
        sizes = {split: len(labels) for split, labels in self.labels().items()}
        source = "files" if self.path else "synthetic"
        classes = tuple(self._listed[0]) if self.path else ()
        task = Task("cross_entropy", len(classes) or self._synthetic_classes, classes=classes)
        return Outline(self._names(), sizes, task, source)  # type: ignore[arg-type]

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Return one party's pictures, read when they are announced or taken."""
        place = self._all_parties().index(self._names()[party])
        plain = Look(self._size, self._part(place), middle=self.middle)
        train = replace(plain, crop_scale=self._crop, flip=True, seed=self.seed) if self.augment else plain
        pictures = {
            split: Pictures(
                source, train if split == "train" else plain, self.channels, split, self._picture(place), self._cache
            )
            for split, source in self._sources(place).items()
        }
        reader = Reader(pictures, self.workers, self.batches_ahead)
        normalize = self.scale == "imagenet"
        return {split: PictureFeatures(split, pictures[split], reader, dtype, normalize) for split in SPLITS}

    def labels(self) -> Mapping[Split, LabelArray]:
        """Return the numbers of the classes, in the order of their names."""
        if not self.path:
            return {split: np.arange(n) % self._synthetic_classes for split, n in self._synthetic_sizes().items()}
        return {split: np.array([s.label for s in part], dtype=np.int64) for split, part in self._samples().items()}

    def sample_ids(self, split: Split) -> npt.NDArray[Any]:
        """Return the samples' names, or numbers for the stand-in."""
        if not self.path:
            return np.arange(self._synthetic_sizes()[split])
        return np.array([sample.id for sample in self._samples()[split]])

    @cached_property
    def _cache(self) -> PictureCache:
        """Pictures of all parties in this process."""
        return PictureCache()

    def _names(self) -> tuple[str, ...]:
        known = self._all_parties()
        for name in self.parties or ():
            if name not in known:
                raise ConfigError(f"dataset.parties: there is no party '{name}'{near_match(name, known)}")
        return known if self.parties is None else tuple(self.parties)

    @cached_property
    def _listed(self) -> Listing:
        root = Path(self.path or "")
        if not os.path.isdir(root):
            raise DataError(f"{root}: no such folder (dataset.path)")
        return renumbered(self._list(root), self._classes, root)

    def _samples(self) -> dict[Split, list[Sample]]:
        """Return the samples of every split; with ``val_fraction``, part of the training samples is for validation."""
        splits = self._listed[1]
        train, val = splits["train"], splits.get("val", [])
        if self.val_fraction:
            if val:
                raise ConfigError("dataset.val_fraction: expected 0, since there is a folder val beside test")
            vals, rest = draw_rows(len(train), self.split_seed, round(len(train) * self.val_fraction))
            if not len(rest):
                raise ConfigError(f"dataset.val_fraction: {self.val_fraction:g} leaves no training samples")
            train, val = [train[row] for row in rest], [train[row] for row in vals]
        return {"train": train, "val": val, "test": splits["test"]}

    def _synthetic_sizes(self) -> dict[Split, int]:
        vals = round(self.synthetic_train * self.val_fraction)
        return {"train": self.synthetic_train - vals, "val": vals, "test": self.synthetic_test}

    def _sources(self, place: int) -> Mapping[Split, Source]:
        which = self._picture(place)
        if not self.path:
            shape = (self._synthetic_classes, self._size, self._grid, which, self.channels)
            return {split: StandIn(split, n, *shape) for split, n in self._synthetic_sizes().items()}
        return {
            split: Files([sample.files[which] for sample in samples], self.channels)
            for split, samples in self._samples().items()
        }


def renumbered(listing: Listing, known: Sequence[str], root: Path) -> Listing:
    """Return a listing with the class numbers of a saved model, if its classes are ``known``; refuse other classes."""
    classes, splits = listing
    if not known:
        return listing
    for name in classes:
        if name not in known:
            raise DataError(f"{root}: class '{name}' is none of the saved model's{near_match(name, known)}")
    numbers = [known.index(name) for name in classes]
    return list(known), {
        split: [sample._replace(label=numbers[sample.label]) for sample in samples] for split, samples in splits.items()
    }


def whole_pair(key: str, value: Any) -> tuple[int, int]:
    """Return (rows, columns) of a pair of positive whole numbers, or of one number for both."""
    pair = [value, value] if isinstance(value, int) else value
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise ConfigError(f"dataset.{key}: expected [rows,columns], got {value!r}")
    return whole(f"dataset.{key}", pair[0], 1, FEW), whole(f"dataset.{key}", pair[1], 1, FEW)


def check_range(key: str, value: Any) -> tuple[float, float]:
    """Return (low, high) with 0 < low <= high <= 1."""
    pair = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []
    if len(pair) != 2 or not all(isinstance(x, int | float) for x in pair) or not 0 < pair[0] <= pair[1] <= 1:
        raise ConfigError(f"dataset.{key}: expected more than 0 and at most 1, the smaller first, got {value!r}")
    return pair[0], pair[1]
