"""How the field measures predicted sentiment, a number from -3 (most negative) to 3.

Zero labels are neutral, and both habits of the field are offered, as in MMSA and Multimodal-Infomax:
``has0`` counts all samples and asks whether prediction and label are both at least 0 or both below; ``non0``
leaves samples with label 0 out and asks whether both are above 0 or both not. F1 is the mean over both classes,
weighted by how many samples have them, as in MMSA; Multimodal-Infomax hands predictions and labels over in exchanged
places, so that its F1 is weighted by how many samples are predicted to have them. With 7 (5) classes, prediction and
label are clipped to [-3, 3] ([-2, 2]) and rounded to the nearest whole number, halves to the even one.

Shapes: n = samples.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

METRICS = ("corr", "acc7", "acc5", "acc2_has0", "f1_has0", "acc2_non0", "f1_non0")


def sentiment_metrics(predictions_n: Tensor, labels_n: Tensor) -> dict[str, float]:
    """Return :data:`METRICS`; NaN where there is none: no label but 0, or a correlation with a constant."""
    has0 = _two_classes(predictions_n >= 0, labels_n >= 0)
    rows = labels_n != 0
    non0 = _two_classes(predictions_n[rows] > 0, labels_n[rows] > 0)
    return {
        "corr": _correlation(predictions_n.double(), labels_n.double()),
        "acc7": _rounded(predictions_n, labels_n, 3.0),
        "acc5": _rounded(predictions_n, labels_n, 2.0),
        "acc2_has0": has0[0],
        "f1_has0": has0[1],
        "acc2_non0": non0[0],
        "f1_non0": non0[1],
    }


def _correlation(predictions_n: Tensor, labels_n: Tensor) -> float:
    """Return Pearson's correlation."""
    a, b = predictions_n - predictions_n.mean(), labels_n - labels_n.mean()
    norm = float(a.norm() * b.norm())
    return float(a @ b) / norm if norm > 0 and math.isfinite(norm) else math.nan


def _rounded(predictions_n: Tensor, labels_n: Tensor, largest: float) -> float:
    classes = [torch.round(values.clamp(-largest, largest)) for values in (predictions_n, labels_n)]
    return float((classes[0] == classes[1]).double().mean())


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
