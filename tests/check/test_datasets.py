"""Faults that were planted in datasets are found and said in a line that tells how to mend them."""

from __future__ import annotations

import datetime
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import flexray.check
from flexray.core.errors import CheckError
from flexray.data.base import ArrayFeatures, Dataset, FittedDataset, Outline
from flexray.data.rows import fit_scaling, scaled
from flexray.tasks import Task

SIZES = {"train": 11, "val": 0, "test": 5}


class Data(Dataset):
    """Keeps all promises; the others each break one."""

    def outline(self):
        return Outline(("left", "right"), SIZES, Task("cross_entropy", 3), "synthetic")

    def draw(self, party, split):
        return np.random.default_rng((party, len(split))).normal(size=(SIZES[split], 4))

    def features(self, party, dtype):
        return {split: ArrayFeatures(self.draw(party, split), dtype) for split in SIZES}

    def labels(self):
        return {split: np.arange(rows) % 3 for split, rows in SIZES.items()}


class Batches(Data):
    """Features with a ``batch`` of their own."""

    def features(self, party, dtype):
        return {split: Rows(self.draw(party, split), dtype, self.take) for split in SIZES}


class Rows:
    def __init__(self, array, dtype, take):
        self.x, self.dtype, self.take = torch.from_numpy(array).to(dtype), dtype, take
        self.sample_shape = array.shape[1:]

    def __len__(self):
        return len(self.x)

    def batch(self, ids_b, epoch):
        return self.take(self, ids_b, epoch)


class NumpyDraws(Data):
    def draw(self, party, split):
        return np.random.normal(size=(SIZES[split], 4))


class TorchDraws(Data):
    def draw(self, party, split):
        return torch.randn(SIZES[split], 4).numpy()


class ClockDraws(Data):
    def draw(self, party, split):
        return super().draw(party, split) + datetime.datetime.now().microsecond


class NoSeed(Data):
    def __init__(self):
        self.seed = np.random.default_rng().integers(1 << 30)

    def draw(self, party, split):
        return super().draw(party, split) + self.seed


class TooFewRows(Data):
    def draw(self, party, split):
        return super().draw(party, split)[:5]


class NotFinite(Data):
    def draw(self, party, split):
        x = super().draw(party, split)
        x[3:4, 1] = np.inf
        return x


class NoSuchClass(Data):
    def labels(self):
        return {split: np.arange(rows) for split, rows in SIZES.items()}


class NoSplit(Data):
    def outline(self):
        return replace(super().outline(), sizes={"train": 11, "test": 5})


class OtherWidth(Data):
    def draw(self, party, split):
        return super().draw(party, split)[:, : 4 if split == "train" else 3]


class FewIds(Data):
    def sample_ids(self, split):
        return np.arange(5)


class OnlyFloat64(Batches):
    def take(self, rows, ids_b, epoch):
        return rows.x[ids_b].double()


class HandsOutItsOwn(Batches):
    def take(self, rows, ids_b, epoch):
        whole = len(ids_b) == len(rows) and (np.diff(ids_b) == 1).all()
        return rows.x if whole else rows.x[ids_b]


class SortsIds(Batches):
    def take(self, rows, ids_b, epoch):
        return rows.x[np.sort(ids_b)]


class EditsIds(Batches):
    def take(self, rows, ids_b, epoch):
        ids_b.sort()
        return rows.x[ids_b]


class LosesOneSample(Batches):
    def take(self, rows, ids_b, epoch):
        return rows.x[ids_b].squeeze()


class CentersTheBatch(Batches):
    def take(self, rows, ids_b, epoch):
        return rows.x[ids_b] - rows.x[ids_b].mean(dim=0)


class CountsBatches(Batches):
    batches = 0

    def take(self, rows, ids_b, epoch):
        self.batches += epoch
        return rows.x[ids_b] * (1 + (self.batches > 6))


class EditsItsArray(Data):
    def __init__(self):
        self.shift = np.ones(4)

    def draw(self, party, split):
        np.abs(self.shift, out=self.shift)
        return super().draw(party, split) + self.shift


class HoldsALock(Data):
    def __init__(self):
        self.lock = threading.Lock()


class GrowsWhenRead(Data):
    parties = 1

    def outline(self):
        return replace(super().outline(), parties=("left", "right", "more")[: self.parties])

    def draw(self, party, split):
        self.parties = 2
        return super().draw(party, split)


class Scales(Data, FittedDataset):
    def features(self, party, dtype):
        array = self.draw(party, "train")
        fitted = self.scaling(("left", "right")[party], fit_scaling(array, np.arange(len(array))))
        return {s: ArrayFeatures(scaled(self.draw(party, s), fitted), dtype, fitted=fitted) for s in SIZES}

    def scaling(self, name, own):
        return self._fitted.get(name, own)


class ScalesAnew(Scales):
    def scaling(self, name, own):
        return own


class OtherTask(Data):
    saved = None

    def outline(self):
        return replace(super().outline(), task=Task("cross_entropy", 4 if self.saved else 3))

    def for_prediction(self, model):
        again = OtherTask()
        again.saved = model
        return again


class Raises(Data):
    def labels(self):
        return {}["train"]


FAULTS: list[tuple[type[Dataset], str]] = [
    (NumpyDraws, "party 'right' in epoch 0 differ: draws from NumPy's global generator; draw from a generator"),
    (TorchDraws, "party 'right' in epoch 0 differ: draws from torch's global generator; draw from a generator"),
    (ClockDraws, "in epoch 0 differ: reads the clock (FILE, line "),
    (NoSeed, "in epoch 0 differ: makes a generator without a seed (FILE, line "),
    (TooFewRows, "party 'left': train has 5 rows, expected 11"),
    (NotFinite, "party 'left': train: row 3, feature 1 is inf; expected finite numbers"),
    (NoSuchClass, "train labels: row 3: label 3 is out of range, expected a whole number from 0 to 2"),
    (NoSplit, "sizes: expected the number of samples of train, val and test, got"),
    (OtherWidth, "party 'left': its splits have samples of shapes"),
    (FewIds, "sample_ids('train') has 5 entries, its outline 11 samples; expected as many"),
    (OnlyFloat64, "a batch of train is torch.float64, asked for torch.float32; end with .to(dtype)"),
    (HandsOutItsOwn, "editing a batch of train changes the next one; index with the IDs, or clone()"),
    (SortsIds, "party 'left': train: samples differ by batch; row i of a batch belongs to ids[i]"),
    (EditsIds, "a batch of train changes the IDs that it is given"),
    (LosesOneSample, "party 'left': train: samples differ by batch"),
    (CentersTheBatch, "party 'left': train: samples differ by batch"),
    (CountsBatches, "differ: 'self.batches' changes when it is read"),
    (EditsItsArray, "where its own arrays are read-only: ValueError: output array is read-only (FILE, line "),
    (HoldsALock, "TypeError: cannot pickle '_thread.lock' object; copy an array before it is edited"),
    (GrowsWhenRead, "names, sizes or task differ: 'self.parties' changes when it is read; compute it from"),
    (ScalesAnew, "party 'left': with_fitted changes nothing; return a copy that uses what with_fitted was given"),
    (OtherTask, "for_prediction gives it the task Task(loss='cross_entropy', num_outputs=4, "),
    (Raises, "has a label of the task for every sample: KeyError: 'train' (FILE, line "),
]  # fmt: skip


@pytest.mark.parametrize(("dataset", "said"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found_and_named(dataset: type[Dataset], said: str) -> None:
    with pytest.raises(CheckError) as caught:
        flexray.check(dataset)
    assert len(caught.value.failures) == 1, str(caught.value)
    assert said.replace("FILE", __file__) in caught.value.failures[0]


@pytest.mark.parametrize("dataset", [Data, Batches, Scales])
def test_what_keeps_its_promises_passes(dataset: Any) -> None:
    if dataset is Batches:
        dataset.take = lambda self, rows, ids_b, epoch: rows.x[ids_b]
    report = flexray.check(dataset)
    assert ("scales by what was fitted before" in report.promises) == (dataset is Scales)
