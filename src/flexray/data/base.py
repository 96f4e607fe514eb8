"""The interface of datasets.

A dataset is a small, picklable description. The driver reads its :class:`Outline`; each party's process loads that
party's features alone; the server's process (and, by default, the parties') loads the labels. To add one, subclass
:class:`Dataset` and name the class in the configuration: ``dataset._target_=my_package.MyDataset``.

Shapes: n = samples of a split, b = samples of a batch.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import override

from flexray.tasks import LabelArray, Task

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
Array = npt.NDArray[Any]
IdArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Presence = Mapping[Split, BoolArray]
"""Whether each sample of a split is at each party [n, k]."""
Fitted = dict[str, Array]
"""Statistics of a party's training rows by which features are scaled: ``mean`` and ``deviation``."""


@dataclass(frozen=True)
class Outline:
    """Names, sizes and task of a dataset, read before any feature.

    Args:
        parties: Names of the K parties, in order; letters, digits and ``_`` only, and none of ids, labels, server.
        sizes: Number of samples of each split; ``val`` may be 0.
        task: Loss and metrics.
        source: Where the samples come from: the user's ``files``, an installed ``package`` or ``synthetic``.
        columns: Party -> names of its features, where these were dealt out and not listed by the user.
        present: The samples of every split that each party has; None: all have all. What features say of a sample that
            their party does not have is never read.
    """

    parties: tuple[str, ...]
    sizes: Mapping[Split, int]
    task: Task
    source: Literal["files", "package", "synthetic"]
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    present: Presence | None = field(default=None, compare=False, repr=False)


class Features(Protocol):
    """One party's features of one split.

    An optional attribute ``offers`` maps further constructor parameters of models, for example ``pretrained``, to
    values that suit the data; like ``in_shape`` they fill in parameters that the configuration leaves open.
    """

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    def __len__(self) -> int: ...

    def batch(self, ids_b: IdArray, epoch: int) -> Tensor | tuple[Tensor, ...]:
        """Return the features of samples ``ids_b`` as a new tensor [b, *sample_shape].

        A tuple becomes several arguments of the model, for example padded sequences [b, t, d] and lengths [b].
        ``epoch`` seeds random augmentation, so that all parties see the same crop of a sample.
        """


@dataclass(frozen=True)
class SavedModel:
    """A saved model that is to predict a dataset's samples.

    Args:
        num_outputs: Number of classes, or 1; None: not known.
        classes: Names of the classes, by number; empty where they are numbers.
        has_new_data: The samples are other than those of its run and need not be split like them.
        columns: Party -> names of its features, where these were dealt out.
    """

    num_outputs: int | None = None
    classes: tuple[str, ...] = ()
    has_new_data: bool = False
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Dataset(ABC):
    """Features of all parties and the labels, split into train, val and test.

    The constructors of flexray's own datasets raise ConfigError for arguments out of range.
    """

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
        """Return this dataset with each party's scaling from an earlier run, for new data."""
        return self

    def sample_ids(self, split: Split) -> npt.NDArray[Any]:
        """Return the user's own IDs of a split's samples, for tables of predictions."""
        return np.arange(self.outline().sizes[split])


class FittedDataset(Dataset):
    """A dataset that uses the classes of a saved model and the scaling of an earlier run."""

    num_outputs: int | None = None
    _saved: SavedModel | None = None
    _fitted: Mapping[str, Fitted] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was found in files, such as a store: every process finds it there itself."""
        kind = type(self)
        return {key: v for key, v in vars(self).items() if not isinstance(getattr(kind, key, None), cached_property)}

    @property
    def _classes(self) -> tuple[str, ...]:
        return self._saved.classes if self._saved else ()

    @override
    def for_prediction(self, model: SavedModel) -> Self:
        """Return this dataset for a saved model: classes keep their numbers, labels may be missing."""
        again = copy.copy(self)
        again._saved, again.num_outputs = model, self.num_outputs or model.num_outputs
        return again

    @override
    def with_fitted(self, fitted: Mapping[str, Fitted]) -> Self:
        """Return this dataset with the scaling of an earlier run."""
        again = copy.copy(self)
        again._fitted = fitted
        return again


class ArrayFeatures:
    """Features held in one array, in memory or memory-mapped.

    Args:
        array: [n, ...] numbers.
        dtype: Type of the tensors that :meth:`batch` returns.
        rows: Optional row numbers; sample i is ``array[rows[i]]``.
        fitted: Scaling already applied to the array, saved with the party's model.
        scaling: (shift, divisor) still to be applied to every batch; per feature or one number.
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
        if not isinstance(array, np.memmap):
            array = np.ascontiguousarray(array if rows is None else array[rows], dtype=numpy_type(dtype))
            rows = None
        self._array, self._rows = array, rows

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self._array.shape[1:])

    @property
    def whole(self) -> Array | None:
        """The array, if samples are its rows as they are; else None."""
        in_memory = self._rows is None and not isinstance(self._array, np.memmap)
        return self._array if in_memory and self._scaling is None else None

    def move_to(self, array: Array) -> None:
        """Hold the features in ``array`` from now on."""
        array[...] = self._array
        self._array = array

    def __len__(self) -> int:
        return len(self._array) if self._rows is None else len(self._rows)

    def batch(self, ids_b: IdArray, epoch: int) -> Tensor:
        """Return the features of samples ``ids_b``; nothing is augmented, so ``epoch`` is ignored."""
        rows_b = ids_b if self._rows is None else self._rows[ids_b]
        batch = torch.from_numpy(np.take(self._array, rows_b, axis=0)).to(self._dtype)
        if self._scaling is None:
            return batch
        shift, divisor = self._scaling
        return batch.sub_(shift).div_(divisor)


def numpy_type(dtype: torch.dtype) -> npt.DTypeLike:
    """Return NumPy's type in which features are made ready for tensors of ``dtype``."""
    return np.float64 if dtype == torch.float64 else np.float32
