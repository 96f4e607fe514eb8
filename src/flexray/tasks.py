"""Losses and metrics, by kind of label.

Shapes: b = samples of a batch, n = samples of a split, c = classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from flexray.core.errors import ConfigError, DataError, near_match

LabelArray = npt.NDArray[np.int64] | npt.NDArray[np.floating]
Loss = Literal["cross_entropy", "l1", "mse"]

LOSSES = ("cross_entropy", "l1", "mse")
FEW_CLASSES, MANY_SAMPLES = range(5, 16), 128
"""Torch's softmax on the CPU is vectorized along such a short dimension only if it is not the last: with 10 classes and
256 samples, loss and gradient then take half the time. With fewer of either nothing is gained."""
SENTIMENT = ("corr", "acc7", "acc5", "acc2_has0", "f1_has0", "acc2_non0", "f1_non0")
METRICS = {"cross_entropy": ("loss", "top1"), "l1": ("loss", "mae"), "mse": ("loss", "mae", "mse")}


@dataclass(frozen=True)
class Task:
    """The meaning of the labels.

    Args:
        loss: ``cross_entropy`` (labels are class numbers 0 .. num_outputs-1), ``l1`` or ``mse`` (labels are numbers).
        num_outputs: Width of the prediction: the number of classes, or 1.
        sentiment: The labels are sentiments; see :func:`sentiment_metrics`.
        classes: Names of the classes, by number; empty where the labels are numbers already.
    """

    loss: Loss
    num_outputs: int
    sentiment: bool = False
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ConfigError(f"dataset.loss: unknown loss '{self.loss}'{near_match(str(self.loss), LOSSES)}")

    @property
    def is_classification(self) -> bool:
        """Whether labels are class numbers."""
        return self.loss == "cross_entropy"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the values that :meth:`evaluate` returns; top-5 accuracy needs more than five classes."""
        more = SENTIMENT if self.sentiment else ("top5",) if self.num_outputs > 5 else ()
        return (*METRICS[self.loss], *more)

    def check_labels(self, labels_n: LabelArray, where: str, ids: Sequence[Any] = ()) -> LabelArray:
        """Return the labels in the type of the loss; refuse unsuitable ones.

        Args:
            labels_n: The labels.
            where: Their file, for messages.
            ids: Names of the samples in messages; by default rows are counted.
        """
        labels = np.asarray(labels_n)
        if self.is_classification:
            return self._check_classes(labels, where, ids)
        per_row = math.prod(labels.shape[1:])
        if labels.ndim == 0 or per_row != 1:
            raise DataError(f"{where}: expected one number per row for loss '{self.loss}', got {per_row}")
        labels = labels.reshape(len(labels))
        is_numeric = labels.dtype.kind in "biuf"
        values = np.asarray(labels if is_numeric else [_number(label) for label in labels], dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise DataError(f"{where}: {_sample(bad[0], ids)}: label {labels[bad[0]]} is not a finite number")
        return values

    def _check_classes(self, labels: npt.NDArray[Any], where: str, ids: Sequence[Any]) -> LabelArray:
        if labels.ndim != 1:
            raise DataError(f"{where}: expected one class number per row, got an array of shape {labels.shape}")
        if not np.issubdtype(labels.dtype, np.number) and labels.dtype != np.bool_:
            raise DataError(f"{where}: expected class numbers, got {labels.dtype}")
        whole = np.asarray(labels, dtype=np.float64)
        bad = np.flatnonzero(~((whole >= 0) & (whole < self.num_outputs) & (whole == np.floor(whole))))
        if bad.size:
            fractions = (whole[np.isfinite(whole)] % 1).any()
            hint = "; labels that are no classes need dataset.loss=l1 or mse" if fractions else ""
            raise DataError(
                f"{where}: {_sample(bad[0], ids)}: label {labels[bad[0]]} is out of range,"
                f" expected a whole number from 0 to {self.num_outputs - 1}{hint}"
            )
        return labels.astype(np.int64)

    def loss_fn(self, prediction_bc: Tensor, labels_b: Tensor) -> Tensor:
        """Return the mean loss of a batch (a scalar that carries gradients)."""
        if self.loss == "cross_entropy":
            if prediction_bc.is_cpu and self.runs_across(len(labels_b)):
                return functional.cross_entropy(prediction_bc.t()[None], labels_b[None])
            return functional.cross_entropy(prediction_bc, labels_b)
        if self.loss == "l1":
            return functional.l1_loss(prediction_bc[:, 0], labels_b)
        return functional.mse_loss(prediction_bc[:, 0], labels_b)

    def losses(self, prediction_bc: Tensor, labels_b: Tensor) -> Tensor:
        """Return the loss of every sample of a batch [b]."""
        if self.loss == "cross_entropy":
            return functional.cross_entropy(prediction_bc, labels_b, reduction="none")
        loss = functional.l1_loss if self.loss == "l1" else functional.mse_loss
        return loss(prediction_bc[:, 0], labels_b, reduction="none")

    def runs_across(self, samples: int) -> bool:
        """Whether the softmax of so many samples on the CPU is quicker with the classes in rows."""
        return self.is_classification and self.num_outputs in FEW_CLASSES and samples >= MANY_SAMPLES

    def evaluate(self, prediction_nc: Tensor, labels_n: Tensor) -> dict[str, float]:
        """Return loss and metrics of a whole split; accuracies are fractions of 1."""
        result = {"loss": float(self.loss_fn(prediction_nc, labels_n))}
        if self.is_classification:
            result["top1"] = _top_k(prediction_nc, labels_n, 1)
            if self.num_outputs > 5:
                result["top5"] = _top_k(prediction_nc, labels_n, 5)
            return result
        error_n = prediction_nc[:, 0] - labels_n
        result["mae"] = float(error_n.abs().mean())
        if self.loss == "mse":
            result["mse"] = float(error_n.square().mean())
        return {**result, **(sentiment_metrics(prediction_nc[:, 0], labels_n) if self.sentiment else {})}


def _sample(row: int, ids: Sequence[Any]) -> str:
    return f"sample '{ids[row]}'" if len(ids) else f"row {row}"


def _number(label: Any) -> float:
    try:
        return float(label)
    except (TypeError, ValueError):
        return math.nan


def _top_k(prediction_nc: Tensor, labels_n: Tensor, k: int) -> float:
    best_nk = torch.topk(prediction_nc, k, dim=1).indices
    return float((best_nk == labels_n[:, None]).any(dim=1).double().mean())


def sentiment_metrics(predictions_n: Tensor, labels_n: Tensor) -> dict[str, float]:
    """Return the :data:`SENTIMENT` metrics of sentiment, a number from -3 (most negative) to 3.

    Zero labels are neutral; the field counts them in two ways, as in MMSA and Multimodal-Infomax: ``has0`` takes all
    samples in the classes >= 0 and < 0; ``non0`` leaves samples with label 0 out and has the classes > 0 and <= 0. F1
    is the mean over both classes, weighted by their numbers of labels, as in MMSA; Multimodal-Infomax exchanges
    predictions and labels and so weights by numbers of predictions. For 7 (5) classes, prediction and label are clipped
    to [-3, 3] ([-2, 2]) and rounded to the nearest whole number, halves to even. A metric is NaN if all labels are 0,
    or for a correlation with a constant.
    """
    rows = labels_n != 0
    values = (
        _correlation(predictions_n.double(), labels_n.double()),
        *(_rounded(predictions_n, labels_n, largest) for largest in (3.0, 2.0)),
        *_two_classes(predictions_n >= 0, labels_n >= 0),
        *_two_classes(predictions_n[rows] > 0, labels_n[rows] > 0),
    )
    return dict(zip(SENTIMENT, values, strict=True))


def _correlation(predictions_n: Tensor, labels_n: Tensor) -> float:
    """Return Pearson's correlation."""
    a, b = predictions_n - predictions_n.mean(), labels_n - labels_n.mean()
    norm = float(a.norm() * b.norm())
    return float(a @ b) / norm if norm > 0 and math.isfinite(norm) else math.nan


def _rounded(predictions_n: Tensor, labels_n: Tensor, largest: float) -> float:
    predicted_n, true_n = (torch.round(values.clamp(-largest, largest)) for values in (predictions_n, labels_n))
    return float((predicted_n == true_n).double().mean())


def _two_classes(predicted_n: Tensor, true_n: Tensor) -> tuple[float, float]:
    """Return accuracy and weighted F1 of truth values."""
    if not len(true_n):
        return math.nan, math.nan
    score = 0.0
    for value in (False, True):
        hits = float(((predicted_n == value) & (true_n == value)).sum())
        both = float((predicted_n == value).sum() + (true_n == value).sum())
        score += float((true_n == value).sum()) * (2 * hits / both if both else 0.0)
    return float((predicted_n == true_n).double().mean()), score / len(true_n)
