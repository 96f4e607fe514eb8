"""scikit-learn's handwritten digits, cut into quadrants: real data without a download.

Shapes: n = samples of a split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from flexray.core.errors import DataError
from flexray.data.base import Array, ArrayFeatures, Dataset, Features, IdArray, Outline, Split
from flexray.data.checks import check_split, check_test_split
from flexray.data.rows import split_rows
from flexray.tasks import LabelArray, Task

NUM_SAMPLES = 1797
TASK = Task("cross_entropy", 10)
LARGEST_PIXEL = 16
CORNERS = {"upper_left": (0, 0), "upper_right": (0, 4), "lower_left": (4, 0), "lower_right": (4, 4)}
"""First row and column of each party's quadrant in the 8x8 image."""


@dataclass
class Digits(Dataset):
    """Images of 8x8 pixels; each of the four parties has one quadrant, [n, 1, 4, 4] with values in [0, 1].

    Args:
        test_fraction: Part of the samples that is the test split.
        val_fraction: Part of the samples that is the validation split.
        split_seed: Draws the splits.
    """

    test_fraction: float = 0.2
    val_fraction: float = 0.1
    split_seed: int = 0

    def __post_init__(self) -> None:
        check_split(self.val_fraction, self.split_seed)
        check_test_split(self.test_fraction, self.val_fraction)

    def outline(self) -> Outline:
        """Return names, sizes and task without reading the images."""
        sizes = {split: len(rows) for split, rows in self._rows().items()}
        return Outline(tuple(CORNERS), sizes, TASK, "package")

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Load one party's quadrant."""
        row, column = tuple(CORNERS.values())[party]
        images = _read()[:, :-1].reshape(-1, 1, 8, 8)
        quadrant = images[:, :, row : row + 4, column : column + 4] / LARGEST_PIXEL
        return {split: ArrayFeatures(quadrant, dtype, rows) for split, rows in self._rows().items()}

    def labels(self) -> Mapping[Split, LabelArray]:
        """Load the digits shown in the images."""
        labels = TASK.check_labels(_read()[:, -1], "scikit-learn's digits")
        return {split: labels[rows] for split, rows in self._rows().items()}

    def sample_ids(self, split: Split) -> npt.NDArray[Any]:
        """Return the samples' positions in scikit-learn's array."""
        return np.array(self._rows()[split])

    def _rows(self) -> dict[Split, IdArray]:
        return split_rows(NUM_SAMPLES, self.test_fraction, self.val_fraction, self.split_seed)


@cache
def _read() -> Array:
    """Return [n, 64 pixels and the digit] from the file that scikit-learn's ``load_digits`` reads; one array for all.

    Importing scikit-learn for it would take every party's process a second.
    """
    package = find_spec("sklearn")
    folders = package.submodule_search_locations if package else None
    if not folders:
        raise DataError("dataset=digits: scikit-learn, which carries the digits, is not installed")
    pixels = np.loadtxt(Path(folders[0]) / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    pixels.setflags(write=False)
    return pixels
