"""scikit-learn's handwritten digits, cut into quadrants: real data that is there without a download.

And the checks of splits and tasks that all datasets share.

Shapes: n = samples of a split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from flexray.data.base import Array, ArrayFeatures, Dataset, Features, IdArray, Outline, Split, split_rows
from flexray.errors import ConfigError
from flexray.tasks import LabelArray, Task

Loss = Literal["cross_entropy", "l1", "mse"]

NUM_SAMPLES = 1797
NUM_CLASSES = 10
LARGEST_PIXEL = 16
# Where each party's quadrant starts in the 8x8 image: row, column.
CORNERS = {"upper_left": (0, 0), "upper_right": (0, 4), "lower_left": (4, 0), "lower_right": (4, 4)}


@dataclass
class Digits(Dataset):
    """Images of 8x8 pixels; each of the four parties has one quadrant, [n, 1, 4, 4] with values in [0, 1].

    Args:
        test_fraction: Part of the samples that is the test split.
        val_fraction: Part of the samples that is the validation split.
        split_seed: Draws the splits.

    Raises:
        ConfigError: An argument is out of range.
    """

    test_fraction: float = 0.2
    val_fraction: float = 0.1
    split_seed: int = 0

    def __post_init__(self) -> None:
        check_split(self.val_fraction, self.split_seed, self.test_fraction)

    def outline(self) -> Outline:
        """Return what is known without scikit-learn."""
        sizes = {split: len(rows) for split, rows in self._rows().items()}
        return Outline(tuple(CORNERS), sizes, self._task, "package")

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Load one party's quadrant."""
        from sklearn.datasets import load_digits

        row, column = tuple(CORNERS.values())[party]
        quadrant = load_digits().images[:, None, row : row + 4, column : column + 4] / LARGEST_PIXEL
        return {split: ArrayFeatures(quadrant, dtype, rows) for split, rows in self._rows().items()}

    def labels(self) -> Mapping[Split, LabelArray]:
        """Load the digits that the images show."""
        from sklearn.datasets import load_digits

        labels = self._task.check_labels(load_digits().target, "scikit-learn's digits")
        return {split: labels[rows] for split, rows in self._rows().items()}

    def sample_ids(self, split: Split) -> npt.NDArray[Any]:
        """Return the samples' positions in scikit-learn's array."""
        return np.array(self._rows()[split])

    @property
    def _task(self) -> Task:
        return Task("cross_entropy", NUM_CLASSES)

    def _rows(self) -> dict[Split, IdArray]:
        return split_rows(NUM_SAMPLES, self.test_fraction, self.val_fraction, self.split_seed)


def check_split(val_fraction: float, split_seed: int, test_fraction: float | None = None) -> None:
    """Refuse fractions and seeds that no split can be made of (``test_fraction`` None: the test split is given)."""
    if test_fraction is not None and not (isinstance(test_fraction, int | float) and 0 < test_fraction < 1):
        raise ConfigError(f"dataset.test_fraction: expected more than 0 and less than 1, got {test_fraction!r}")
    if not (isinstance(val_fraction, int | float) and 0 <= val_fraction < 1):
        raise ConfigError(f"dataset.val_fraction: expected at least 0 and less than 1, got {val_fraction!r}")
    if val_fraction + (test_fraction or 0) >= 1:
        raise ConfigError(
            "dataset.test_fraction and dataset.val_fraction: expected a sum of less than 1,"
            f" got {test_fraction} + {val_fraction}"
        )
    if not isinstance(split_seed, int) or split_seed < 0:
        raise ConfigError(f"dataset.split_seed: expected a whole number, 0 or more, got {split_seed!r}")


def check_task(loss: Loss, num_outputs: int | None) -> None:
    """Refuse an unknown loss and a number of outputs that does not suit it."""
    limit = None if Task(loss, 1).is_classification else 1
    if num_outputs is None:
        return
    if not isinstance(num_outputs, int) or num_outputs < 1 or num_outputs > (limit or num_outputs):
        wanted = "1" if limit else "a whole number, 1 or more,"
        raise ConfigError(f"dataset.num_outputs: expected {wanted} for loss '{loss}', got {num_outputs!r}")


def make_task(loss: Loss, num_outputs: int | None, *labels: Array) -> Task:
    """Return the task; without ``num_outputs`` there is one class more than the largest label says."""
    if loss != "cross_entropy" or num_outputs is not None:
        return Task(loss, num_outputs or 1)
    # Labels that are no class numbers are for Task.check_labels to refuse: it names the row.
    finite = [a[np.isfinite(a)] for a in labels if a.dtype.kind in "biuf"]
    return Task(loss, max([1] + [int(a.max()) + 1 for a in finite if a.size]))
