"""Parties and samples by number alone, with noise for features: for questions about time that need no data.

Shapes: n = samples of a split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from flexray.core.checks import whole
from flexray.core.seeds import generator
from flexray.data.base import SPLITS, ArrayFeatures, Dataset, Features, Outline, Split
from flexray.tasks import LabelArray, Task

MOST_PARTIES = 1_000_000


@dataclass
class Sizes(Dataset):
    """A system of a given size. Its features are noise [n, features] that says nothing about the labels.

    Args:
        parties: K; they are called ``party_1``, ``party_2``, ...
        samples: Training samples, at least one of each class. There is one test sample of each class.
        features: Features of each party.
        classes: Number of classes.
    """

    parties: int = 4
    samples: int = 1000
    features_per_party: int = 8
    classes: int = 10

    def __post_init__(self) -> None:
        whole("dataset.parties", self.parties, low=1, high=MOST_PARTIES)
        whole("dataset.classes", self.classes, low=2)
        whole("dataset.samples", self.samples, low=self.classes)
        whole("dataset.features_per_party", self.features_per_party, low=1)

    def outline(self) -> Outline:
        """Return the sizes."""
        names = tuple(f"party_{k + 1}" for k in range(self.parties))
        return Outline(names, self._sizes, Task("cross_entropy", self.classes), "synthetic")

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Draw one party's noise."""
        return {
            split: ArrayFeatures(
                generator(0, "sizes", party, split).standard_normal((size, self.features_per_party)), dtype
            )
            for split, size in self._sizes.items()
        }

    def labels(self) -> Mapping[Split, LabelArray]:
        """Return the classes in turn."""
        return {split: np.arange(self._sizes[split]) % self.classes for split in SPLITS}

    @property
    def _sizes(self) -> dict[Split, int]:
        return {"train": self.samples, "val": 0, "test": self.classes}
