"""What a dataset is to flexray.

A dataset is a small, picklable description. The driver asks it for its :class:`Outline`; each party's process asks
it for that party's features alone, the server's (and, by default, the parties') for the labels. To add one, subclass
:class:`Dataset` and name the class in the configuration: ``dataset._target_=my_package.MyDataset``.

Shapes: n = samples of a split, b = samples of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flexray.tasks import LabelArray, Task

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
Array = npt.NDArray[Any]
IdArray = npt.NDArray[np.int64]
Fitted = dict[str, Array]
"""What a party's features were fitted to, for example the mean and deviation of the training rows."""


@dataclass(frozen=True)
class Outline:
    """What is known of a dataset before any feature is read.

    Args:
        parties: Names of the K parties, in order; letters, digits and ``_`` only, and none of ids, labels, server.
        sizes: Number of samples of each split; ``val`` may be 0.
        task: Loss and metrics.
        source: Where the samples come from: the user's ``files``, an installed ``package`` or ``synthetic``.
    """

    parties: tuple[str, ...]
    sizes: Mapping[Split, int]
    task: Task
    source: Literal["files", "package", "synthetic"]


class Features(Protocol):
    """One party's features of one split.

    An optional attribute ``offers`` maps further constructor parameters of models to values that suit the data, for
    example ``pretrained``; like ``in_shape`` they fill in what the configuration leaves open.
    """

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    def __len__(self) -> int: ...

    def batch(self, ids_b: IdArray, epoch: int) -> Tensor | tuple[Tensor, ...]:
        """Return the features of samples ``ids_b`` as a new tensor [b, *sample_shape].

        A tuple is what the model takes as several arguments, for example padded sequences [b, t, d] and lengths [b].
        ``epoch`` seeds random augmentation, so that all parties see the same crop of a sample.
        """


@dataclass(frozen=True)
class SavedModel:
    """What a dataset is told of the model that is to predict.

    Args:
        num_outputs: Number of classes, or 1; None: not known.
        classes: Names of the classes, by number; empty where they are numbers.
        has_new_data: The samples are not those of its run, so that they need not be split as those were.
    """

    num_outputs: int | None = None
    classes: tuple[str, ...] = ()
    has_new_data: bool = False


class Dataset(ABC):
    """Features of all parties and the labels, split into train, val and test."""

    @abstractmethod
    def outline(self) -> Outline:
        """Read names, sizes and task; cheap, no features are loaded."""

    @abstractmethod
    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Load the features of party ``party`` (0-based) and nothing else; called once, in that party's process."""

    @abstractmethod
    def labels(self) -> Mapping[Split, LabelArray]:
        """Load the labels of every split, checked by the task."""

    def for_prediction(self, model: SavedModel) -> Dataset:
        """Return this dataset for a saved model; labels may then be missing.

        :meth:`labels` leaves out the splits that have none.
        """
        return self

    @property
    def is_whole(self) -> bool:
        """Whether there are no splits: ``test`` has all samples, which a saved model is to predict."""
        return False

    def with_fitted(self, fitted: Mapping[str, Fitted]) -> Dataset:
        """Return this dataset with what an earlier run's features were fitted to, by party; for new data."""
        return self

    def sample_ids(self, split: Split) -> npt.NDArray[Any]:
        """Return the user's own IDs of a split's samples, for tables of predictions."""
        return np.arange(self.outline().sizes[split])


class ArrayFeatures:
    """Features held in one array, in memory or memory-mapped.

    Args:
        array: [n, ...] numbers.
        dtype: Type of the tensors that :meth:`batch` returns.
        rows: Optional row numbers; sample i is ``array[rows[i]]``.
        fitted: What the array was scaled by, to be saved with the party's model.
        scaling: What every batch is still to be scaled by: subtracted, then divided by; per feature or one number.
    """

    def __init__(
        self,
        array: Array,
        dtype: torch.dtype,
        rows: IdArray | None = None,
        fitted: Fitted | None = None,
        scaling: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ) -> None:
        self.fitted = fitted or {}
        self._scaling = None if scaling is None else [torch.as_tensor(part, dtype=dtype) for part in scaling]
        self._dtype = dtype
        self._mapped = isinstance(array, np.memmap)
        if not self._mapped:
            array = np.ascontiguousarray(array if rows is None else array[rows], dtype=_numpy_type(dtype))
            rows = None
        self._array = array
        self._rows = rows

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self._array.shape[1:])

    def __len__(self) -> int:
        return len(self._array) if self._rows is None else len(self._rows)

    def batch(self, ids_b: IdArray, epoch: int) -> Tensor:
        """Return the features of samples ``ids_b`` (``epoch`` is not used: nothing is augmented)."""
        rows_b = ids_b if self._rows is None else self._rows[ids_b]
        batch = torch.from_numpy(np.take(self._array, rows_b, axis=0)).to(self._dtype)
        if self._scaling is None:
            return batch
        shift, divisor = self._scaling
        return batch.sub_(shift).div_(divisor)


def _numpy_type(dtype: torch.dtype) -> npt.DTypeLike:
    return np.float64 if dtype == torch.float64 else np.float32
