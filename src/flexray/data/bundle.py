"""A folder of NumPy arrays, one per party and split.

    FOLDER/train/video.npy  audio.npy  labels.npy  [ids.npy]
                video_ids.npy  of a party that has other samples, or another order, than ids.npy (dataset.alignment)
    FOLDER/test/ the same;  FOLDER/val/ the same, if there is a validation split of its own

Shapes: n = samples of a split.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from flexray.core.errors import ConfigError, DataError, near_match
from flexray.data.alignment import Aligned, Alignment, align_lists, check_alignment, presence
from flexray.data.base import SPLITS, Array, ArrayFeatures, Features, Fitted, FittedDataset, IdArray, Outline, Split
from flexray.data.checks import (
    check_features,
    check_party_name,
    check_path,
    check_split,
    check_task,
    name_list,
    open_rows,
)
from flexray.data.rows import blocks, draw_rows, fit_scaling, make_task, numbered, row_of_ids
from flexray.tasks import LabelArray, Loss, Task

LAYOUT = "expected a folder with train/NAME.npy and test/NAME.npy (one array per party) and a labels.npy in both"
Scaling = tuple[npt.ArrayLike, npt.ArrayLike]
SCALES = ("none", "unit", "standard")


@dataclass
class Bundle(FittedDataset):
    """A folder of ``.npy`` files; features stay on disk, memory-mapped.

    Args:
        path: The folder.
        loss: ``cross_entropy``, ``l1`` or ``mse``.
        num_outputs: Number of classes, 0 .. num_outputs-1; by default the number of different labels in all splits,
            where numbers with gaps become 0, 1, ... in their order.
        val_fraction: Part of the training rows that becomes the validation split, where there is no ``val`` folder.
        split_seed: Draws these rows.
        parties: Which ``NAME.npy`` to use, in this order; by default all, sorted by name.
        alignment: Where parties have lists of IDs of their own, ``NAME_ids.npy``: ``intersection``, the samples of
            ``ids.npy`` that all parties have, or ``union``, those that any has. None: rows are aligned.
        scale: ``none``; ``unit`` divides whole numbers by the largest of their type (uint8: 255); ``standard`` gives
            every feature mean 0 and variance 1 over the training rows (a constant one becomes 0).
    """

    path: str | Path | None = None
    loss: Loss = "cross_entropy"
    num_outputs: int | None = None
    val_fraction: float = 0.0
    split_seed: int = 0
    parties: Sequence[str] | None = None
    scale: str = "none"
    alignment: Alignment | None = None

    def __post_init__(self) -> None:
        check_path("dataset.path", self.path)
        if not self.path:
            raise ConfigError(f"dataset.path: {LAYOUT}, got none")
        if self.scale not in SCALES:
            raise ConfigError(f"dataset.scale: unknown '{self.scale}'{near_match(str(self.scale), SCALES)}")
        check_alignment(self.alignment)
        self._root = Path(self.path)
        check_task(self.loss, self.num_outputs)
        check_split(self.val_fraction, self.split_seed)
        if self.parties is not None:
            self.parties = name_list("dataset.parties", self.parties)
            for name in self.parties:
                check_party_name(name, "dataset.parties")

    def outline(self) -> Outline:
        """Read names, sizes and task from the headers of the features' files and from the labels."""
        counted, names = self._counted(), self._party_names()
        for name in names:
            self._check_rows(self._party_arrays(name), name, self._own_ids(name) or counted)
        self._check_rows(self._given_ids(), "ids", counted)
        samples = self._samples()
        sizes = {split: len(array) if rows is None else len(rows) for split, array, rows in self._cut(samples)}
        return Outline(names, sizes, self._task(self._given_labels()), "files", present=presence(self._cut_aligned()))

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Map the arrays of one party, after a pass over them in search of NaN and infinity."""
        name = self._party_names()[party]
        arrays = self._party_arrays(name)
        for split, array in arrays.items():
            _scan(array, f"{self._file(split, name)}: party '{name}'")
        cut = list(self._cut_features(arrays, party))
        fitted, scaling = self._scaling(name, next(part for part in cut if part[0] == "train"))
        return {split: ArrayFeatures(array, dtype, rows, fitted, scaling) for split, array, rows in cut}

    def _cut_features(self, arrays: Mapping[Split, Array], party: int) -> Iterator[tuple[Split, Array, IdArray | None]]:
        """Yield every split with a party's array and the rows of its samples there (None: all; -1: it lacks one)."""
        if self.alignment is None:
            yield from self._cut(arrays)
            return
        for split, own in self._cut_aligned().items():
            yield split, arrays[split if split in arrays else "train"], own.rows_nk[:, party]

    def _scaling(self, name: str, train: tuple[Split, Array, IdArray | None]) -> tuple[Fitted, Scaling | None]:
        """Return the fitted scaling of a party, if any, and (shift, divisor) of its features."""
        _, array, rows = train
        if self.scale == "none":
            return {}, None
        if self.scale == "standard":
            rows = rows if rows is None else rows[rows >= 0]
            fitted = self._fitted[name] if self._fitted else fit_scaling(array, rows)
            return fitted, (fitted["mean"], fitted["deviation"])
        if array.dtype.kind != "u":
            file = self._file("train", name)
            raise DataError(
                f"{file}: expected uint8 or another unsigned type for dataset.scale=unit, got {array.dtype}"
            )
        return {}, (0.0, float(np.iinfo(array.dtype).max))

    def labels(self) -> Mapping[Split, LabelArray]:
        """Load the labels, and refuse IDs that occur twice in a split."""
        stored = self._given_labels()
        for split, ids in self._given_ids().items():
            if ids.ndim != 1:
                raise DataError(f"{self._file(split, 'ids')}: expected one ID per row, got shape {ids.shape}")
            row_of_ids(ids.tolist(), str(self._file(split, "ids")))
        task = self._task(stored)
        checked = {}
        for split, array in stored.items():
            where = str(self._file(split, "labels"))
            checked[split] = task.check_labels(numbered(np.array(array), task, where), where)
        checked |= {split: checked[split][own.rows_n] for split, own in self._aligned.items() if split in checked}
        result: dict[Split, LabelArray] = {}
        for split, _, rows in self._cut(self._samples()):
            source = split if split in self._stored() else "train"
            if source in checked:
                result[split] = checked[source] if rows is None else checked[source][rows]
        return result

    def sample_ids(self, split: Split) -> npt.NDArray[Any]:
        """Return the IDs of a split's samples: those of ``ids.npy``, or row numbers where there is none."""
        ids: dict[Split, Array] = {s: np.arange(len(array)) for s, array in self._counted().items()}
        ids |= self._given_ids()
        ids |= {s: ids[s][own.rows_n] for s, own in self._aligned.items()}
        return next(np.array(a if rows is None else a[rows]) for part, a, rows in self._cut(ids) if part == split)

    def _task(self, labels: Mapping[Split, Array]) -> Task:
        where = f"{self._root}: labels.npy"
        return make_task(self.loss, self.num_outputs, *labels.values(), where=where, classes=self._classes)

    def _file(self, split: Split, name: str) -> Path:
        return self._root / split / f"{name}.npy"

    def _stored(self) -> tuple[Split, ...]:
        """Return the splits that have a folder."""
        if not os.path.isdir(self._root):
            raise DataError(f"{self._root}: no such folder; {LAYOUT}")
        if not os.path.isdir(self._root / "val"):
            return ("train", "test")
        if self.val_fraction:
            raise ConfigError(
                f"dataset.val_fraction: expected 0, since {self._root / 'val'} is the validation split,"
                f" got {self.val_fraction}"
            )
        return SPLITS

    def _open_all(self, name: str, is_optional: bool = False) -> dict[Split, Array]:
        """Map NAME.npy of every stored split, or with ``is_optional`` of those splits that have it."""
        files = {split: self._file(split, name) for split in self._stored()}
        return {split: open_rows(file) for split, file in files.items() if not is_optional or os.path.exists(file)}

    def _given_labels(self) -> dict[Split, Array]:
        return self._open_all("labels", is_optional=self._saved is not None)

    def _given_ids(self) -> dict[Split, Array]:
        return self._open_all("ids", is_optional=True)

    def _counted(self) -> dict[Split, Array]:
        """Return arrays with a row per sample of each split: the labels or, without, the first party's features."""
        labels = self._given_labels()
        lacking = any(split not in labels for split in self._stored())
        return {**(self._open_all(self._party_names()[0]) if lacking else {}), **labels}

    def _own_ids(self, name: str) -> dict[Split, Array]:
        """Map a party's own lists of IDs; of splits without one, that of the labels. Empty if rows are aligned."""
        if self.alignment is None:
            return {}
        common = self._given_ids()
        for split in self._stored():
            if split not in common:
                raise DataError(f"{self._file(split, 'ids')}: no such file; dataset.alignment needs the labels' IDs")
        return {**common, **self._open_all(f"{name}_ids", is_optional=True)}

    @cached_property
    def _aligned(self) -> dict[Split, Aligned]:
        """Return the samples of every stored split where parties have lists of IDs of their own; else nothing."""
        if self.alignment is None:
            return {}
        own = {name: self._own_ids(name) for name in self._party_names()}
        found: dict[Split, Aligned] = {}
        for split, ids in self._given_ids().items():
            rows = {
                name: row_of_ids(lists[split].tolist(), f"{self._file(split, name)}: IDs")
                for name, lists in own.items()
            }
            found[split] = align_lists(ids.tolist(), rows, self.alignment, str(self._file(split, "ids")))
        return found

    def _cut_aligned(self) -> dict[Split, Aligned]:
        """Return the samples of every split where parties have lists of IDs of their own; else nothing."""
        aligned = self._aligned
        if not aligned:
            return {}
        cut = self._cut({split: own.rows_n for split, own in aligned.items()})
        return {split: aligned[split if split in aligned else "train"].taken(rows) for split, _, rows in cut}

    def _samples(self) -> dict[Split, Array]:
        """Return arrays with a row per sample of each stored split that is used."""
        return {**self._counted(), **{split: own.rows_n for split, own in self._aligned.items()}}

    def _party_names(self) -> tuple[str, ...]:
        """Return the parties' names; every split must have a file of each."""
        files = {split: (self._root / split).glob("[!.]*.npy") for split in self._stored()}
        found = {split: {file.stem for file in part} - {"labels", "ids"} for split, part in files.items()}
        if self.alignment:
            lists = {f"{name}_ids" for part in found.values() for name in part}
            found = {split: part - lists for split, part in found.items()}
        known = sorted(set().union(*found.values()))
        names = known if self.parties is None else list(self.parties)
        if not known:
            raise DataError(f"{self._root / 'train'}: has no party arrays; {LAYOUT}")
        for name in names:
            holders = [split for split in found if name in found[split]]
            if not holders:
                raise ConfigError(f"dataset.parties: {self._root} has no {name}.npy{near_match(name, known)}")
            for split in found:
                if split not in holders:
                    other = self._file(holders[0], name)
                    raise DataError(f"{self._file(split, name)}: no such file, but party '{name}' has {other}")
            check_party_name(name, str(self._file(holders[0], name)), DataError)
        return tuple(names)

    def _party_arrays(self, name: str) -> dict[Split, Array]:
        """Map one party's arrays of all stored splits, their headers checked."""
        arrays = self._open_all(name)
        for split, array in arrays.items():
            file, kind = self._file(split, name), array.dtype
            if kind.kind not in "biuf" or kind.itemsize > 8 or not kind.isnative:
                raise DataError(f"{file}: expected numbers (bool, int or float, native byte order), got {kind}")
            _scan(array[:1], f"{file}: party '{name}'")
            if array.shape[1:] != arrays["train"].shape[1:]:
                raise DataError(
                    f"{file}: samples have shape {array.shape[1:]}, but {arrays['train'].shape[1:]}"
                    f" in {self._file('train', name)}"
                )
        return arrays

    def _check_rows(self, arrays: Mapping[Split, Array], name: str, counted: Mapping[Split, Array]) -> None:
        for split, array in arrays.items():
            if len(array) != len(counted[split]):
                other = "labels" if os.path.exists(self._file(split, "labels")) else self._party_names()[0]
                raise DataError(
                    f"{self._file(split, name)}: has {len(array)} rows,"
                    f" but {self._file(split, other)} has {len(counted[split])}"
                )

    def _cut(self, stored: Mapping[Split, Array]) -> Iterator[tuple[Split, Array, IdArray | None]]:
        """Yield every split with its stored array and its rows there (None: all)."""
        train, val, rows = stored["train"], stored.get("val"), None
        if val is None:
            val_rows, rest = draw_rows(len(train), self.split_seed, round(len(train) * self.val_fraction))
            if not len(rest):
                raise DataError(
                    f"{self._root / 'train'}: {len(train)} rows with val_fraction={self.val_fraction:g}"
                    " leave no training samples"
                )
            rows = rest if len(val_rows) else None
            yield "val", train, val_rows
        else:
            yield "val", val, None
        yield "train", train, rows
        yield "test", stored["test"], None


def _scan(array_n: Array, where: str) -> None:
    for part in blocks(array_n):
        check_features(array_n[part], where, first_row=part.start)
