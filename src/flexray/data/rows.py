"""Rows, IDs and labels: from a table of samples to splits, an order shared by all parties, and a task.

Shapes: n = rows, f = features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from flexray.core.checks import listed
from flexray.core.errors import ConfigError, DataError
from flexray.data.base import Array, Fitted, IdArray, Split
from flexray.tasks import LabelArray, Loss, Task

BLOCK_BYTES = 64 * 2**20
MOST_CLASSES = 1000
"""Most different labels that count as classes without ``num_outputs``; ImageNet has as many."""
FEW_CLASSES = 20
"""Most different labels that count as classes however few rows there are."""
EXACT = 2**53
"""Largest whole number up to which float64 is exact."""


def split_rows(
    total: int, test_fraction: float, val_fraction: float, seed: int, where: str = "dataset"
) -> dict[Split, IdArray]:
    """Cut ``total`` rows into train, val and test by one seeded permutation; each part keeps the rows' order."""
    test, val, train = draw_rows(total, seed, round(total * test_fraction), round(total * val_fraction))
    if not train.size or not test.size:
        raise DataError(
            f"{where}: {total} rows with test_fraction={test_fraction:g} and val_fraction={val_fraction:g}"
            " leave no training or no test samples"
        )
    return {"train": train, "val": val, "test": test}


def draw_rows(total: int, seed: int, *counts: int) -> list[IdArray]:
    """Cut ``total`` rows by a seeded permutation into parts of ``counts`` rows and the rest; each part is sorted."""
    order = np.random.Generator(np.random.PCG64(seed)).permutation(total)
    return [np.sort(part) for part in np.split(order, np.cumsum(counts))]


def row_of_ids(ids: Iterable[Any], where: str) -> dict[Any, int]:
    """Return the row of every ID, in order; refuse an ID that is missing or occurs twice."""
    row_of: dict[Any, int] = {}
    for row, sample in enumerate(ids):
        if sample in (None, ""):
            raise DataError(f"{where}: row {row} is empty; expected an ID")
        if row_of.setdefault(sample, row) != row:
            raise DataError(f"{where}: row {row}: ID {sample!r} is already in row {row_of[sample]}")
    return row_of


def align(row_of: Mapping[str, int], wanted: Iterable[str], where: str, other: str) -> IdArray:
    """Return the row of every ``wanted`` ID; ``where`` must have exactly those IDs that ``other`` has."""
    asked = dict.fromkeys(wanted)
    missing = [repr(sample) for sample in asked if sample not in row_of]
    extra = [repr(sample) for sample in row_of if sample not in asked]
    faults = [f"lacks IDs that {other} has ({listed(missing, 3)})"] if missing else []
    faults += [f"has IDs that {other} lacks ({listed(extra, 3)})"] if extra else []
    if faults:
        raise DataError(f"{where} {' and '.join(faults)}")
    return np.array([row_of[sample] for sample in asked])


def class_numbers(texts: Sequence[Any], where: str, known: Sequence[str] = ()) -> tuple[IdArray, tuple[str, ...]]:
    """Return the number of every text's class, and the classes: those ``known``, else the sorted distinct texts."""
    missing = [row for row, text in enumerate(texts) if text in (None, "")]
    if missing:
        raise DataError(f"{where}: row {missing[0]} is empty; expected a label")
    names = tuple(known) or tuple(sorted({str(text) for text in texts}))
    number_of = {name: number for number, name in enumerate(names)}
    strange = [row for row, text in enumerate(texts) if str(text) not in number_of]
    if strange:
        told = f"{texts[strange[0]]!r} is no class of the saved model; it has: {listed(names, 8)}"
        raise DataError(f"{where}: row {strange[0]}: {told}")
    return np.array([number_of[str(text)] for text in texts], dtype=np.int64), names


def make_task(
    loss: Loss, num_outputs: int | None, *labels: Array, where: str = "dataset", classes: Sequence[str] = ()
) -> Task:
    """Return the task of the labels of all splits.

    Without ``num_outputs``, class numbers 0 .. C-1 stay as they are, and so do 1 .. C, which make one class more. Of
    numbers with gaps, such as 10, 20, 30, each is a class named by its number; see :func:`numbered`.

    Raises:
        ConfigError: The number of classes is not given, and there are no labels.
        DataError: There are too many different labels for classes.
    """
    if loss == "cross_entropy" and num_outputs is None and not labels:
        raise ConfigError("dataset.num_outputs: expected the number of classes, which data without labels lacks")
    if loss != "cross_entropy" or num_outputs is not None:
        return Task(loss, num_outputs or 1, classes=tuple(classes))
    found = [_class_numbers_in(a) for a in labels]
    if None in found:  # Task.check_labels refuses them and names the row
        finite = [a[np.isfinite(a)] for a in labels if a.dtype.kind in "biuf"]
        return Task(loss, min(MOST_CLASSES, max([1] + [int(a.max()) + 1 for a in finite if a.size])))
    values = sorted(set().union(*(part or () for part in found)))
    check_class_count(len(values), sum(map(len, labels)), where)
    if not values or (values[0] in (0, 1) and values[-1] - values[0] < len(values)):
        return Task(loss, values[-1] + 1 if values else 1)
    return Task(loss, len(values), classes=tuple(map(str, values)))


def _class_numbers_in(labels_n: Array) -> set[int] | None:
    """Return the different whole numbers among labels, or None if one is no number of a class."""
    if labels_n.dtype.kind not in "biuf" or labels_n.ndim != 1:
        return None
    found_c = np.unique(labels_n)
    if not ((found_c >= 0) & (found_c <= EXACT)).all() or (found_c != np.floor(found_c)).any():
        return None
    return set(map(int, found_c))


def check_class_count(classes: int, rows: int, where: str) -> None:
    """Refuse more different labels than classes have: they are quantities or IDs."""
    if classes > MOST_CLASSES or (classes > FEW_CLASSES and classes > rows / 2):
        raise DataError(
            f"{where}: has {classes:,} different labels in {rows:,} rows; expected dataset.loss=l1 or mse for"
            " quantities, or dataset.num_outputs if there are so many classes"
        )


def numbered(labels_n: LabelArray, task: Task, where: str) -> LabelArray:
    """Return the class numbers of labels that are numbers themselves; unchanged where classes have no names."""
    if not task.classes or labels_n.ndim != 1 or labels_n.dtype.kind not in "biuf":
        return labels_n
    texts = ["" if value != value else str(int(value) if value % 1 == 0 else value) for value in labels_n.tolist()]
    return class_numbers(texts, where, task.classes)[0]


def blocks(array_n: Array) -> Iterator[slice]:
    """Cut the rows of a (memory-mapped) array into slices of at most :data:`BLOCK_BYTES` each."""
    step = max(1, BLOCK_BYTES * len(array_n) // max(1, array_n.nbytes))
    yield from (slice(start, start + step) for start in range(0, len(array_n), step))


def fit_scaling(features_n: Array, train: IdArray | None = None, cuts: Sequence[IdArray] | None = None) -> Fitted:
    """Return mean and deviation of every feature over the training rows (None: all), read in ``cuts`` of them.

    The deviation of a constant feature is infinite, so that it is scaled to 0.
    """
    rows = np.arange(len(features_n)) if train is None else train
    cuts = cuts or [rows[part] for part in blocks(features_n) if part.start < len(rows)]

    def parts() -> Iterator[npt.NDArray[np.float64]]:
        return (np.asarray(features_n[cut], dtype=np.float64) for cut in cuts)

    mean = sum(part.sum(axis=0) for part in parts()) / len(rows)
    square = sum(np.square(part - mean).sum(axis=0) for part in parts()) / len(rows)
    low = np.minimum.reduce([part.min(axis=0) for part in parts()])
    high = np.maximum.reduce([part.max(axis=0) for part in parts()])
    return {"mean": mean, "deviation": np.where((low == high) | (square == 0), np.inf, np.sqrt(square))}


def scaled(features_nf: npt.NDArray[np.float64], fitted: Fitted) -> npt.NDArray[np.float64]:
    """Return features of mean 0 and variance 1 over the rows that the scaling was fitted to; constant ones as 0."""
    return (features_nf - fitted["mean"]) / fitted["deviation"]
