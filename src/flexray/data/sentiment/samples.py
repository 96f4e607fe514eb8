"""The samples that every layout is read into: by split, each modality with its own IDs.

Shapes: n = samples, t = steps of one sample, d = features of a step.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flexray.core.errors import DataError
from flexray.data.base import Array, Split

PARTIES = ("video", "audio", "text")
"""The three modalities, in the paper's order."""


@dataclass
class Modality:
    """One modality of one split, with IDs of its own and its file (and key) for messages.

    A sample of kind ``steps`` is an array [t, d], of ``flat`` a row [d] of features, of ``sentences`` a text, of
    ``tokens`` IDs [t].
    """

    ids: Sequence[str]
    samples: Sequence[Any]
    kind: str
    where: str

    def is_missing(self, row: int) -> bool:
        """Whether this sample is empty: no step, no word, or zeros only."""
        sample = self.samples[row]
        if self.kind == "sentences":
            return not sample.strip()
        return self.kind != "flat" and not np.any(sample)


@dataclass
class Samples:
    """One split of a layout: labels with their IDs and their file (and key), and modalities in orders of their own."""

    ids: Sequence[str]
    labels_n: Array
    modalities: Mapping[str, Modality]
    where: str


Splits = dict[Split, Samples]


def join(samples: Samples, union: bool = False) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
    """Match the modalities by ID; all-zero samples count as lacking.

    Args:
        samples: A split.
        union: Take samples that have any modality; else those that have all.

    Returns:
        ``labels`` or a modality -> its rows of these samples, -1 where it has none; and modality -> IDs that it lacks.

    Raises:
        DataError: An ID occurs twice, or there is no such sample.
    """
    row_of = {name: _rows(m.ids, m.where) for name, m in samples.modalities.items()}
    rows: dict[str, list[int]] = {name: [] for name in ("labels", *row_of)}
    dropped: dict[str, list[str]] = {}
    for sample, label_row in _rows(samples.ids, samples.where).items():
        places = {name: own[sample] for name, own in row_of.items() if sample in own}
        lacking = [n for n in row_of if n not in places or samples.modalities[n].is_missing(places[n])]
        for name in lacking:
            dropped.setdefault(name, []).append(sample)
        if not lacking or (union and len(lacking) < len(row_of)):
            for name, row in {"labels": label_row, **places, **dict.fromkeys(lacking, -1)}.items():
                rows[name].append(row)
    if not rows["labels"]:
        told = "any" if union else "all"
        raise DataError(f"{samples.where}: no sample has {told} of {', '.join(samples.modalities)}")
    return rows, dropped


def _rows(ids: Sequence[str], where: str) -> dict[str, int]:
    row_of: dict[str, int] = {}
    for row, sample in enumerate(ids):
        if not sample:
            raise DataError(f"{where}: sample {row}: expected an ID, got none")
        if row_of.setdefault(sample, row) != row:
            raise DataError(f"{where}: sample {row}: ID '{sample}' is already in sample {row_of[sample]}")
    return row_of


def as_text(value: Any) -> str:
    """Return an ID or a word, held as str, bytes, or an array or list of one; None, NaN and an empty list are ''."""
    value = plain(value)
    while isinstance(value, list | tuple):
        value = plain(value[0]) if value else None
    if isinstance(value, dict | set | frozenset):
        return reprlib.repr(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def plain(value: Any) -> Any:
    """Return Python's own numbers, texts and lists for NumPy's."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def is_listing(value: Any) -> bool:
    """Whether this is a list, a tuple, or an array with axes."""
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


def as_array(value: Any) -> Array:
    """Return a pickle's value as an array; as an object array without axes if its parts have different shapes."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.array(None, dtype=object)


def step_count(value: Any, steps: int, where: str, cut: bool = False) -> int:
    """Return a sample's length; refuse anything but a whole number from 0 to ``steps``, the length of its array.

    With ``cut``, a larger number counts as ``steps``: preparing scripts note lengths from before they cut arrays.
    """
    number = plain(value)
    if isinstance(number, list) and len(number) == 1:
        number = number[0]
    if isinstance(number, int | float) and 0 <= number < math.inf and number % 1 == 0 and (cut or number <= steps):
        return min(int(number), steps)
    expected = "a whole number of steps" if cut else f"a whole number of steps from 0 to {steps}"
    raise DataError(f"{where}: expected {expected}, got {reprlib.repr(number)}")


def trimmed(steps_td: Array) -> Array:
    """Return an array [t, d] without the all-zero steps that pad it in front and behind."""
    used = np.flatnonzero(np.any(steps_td != 0, axis=1))
    return steps_td[used[0] : used[-1] + 1] if used.size else steps_td[:0]
