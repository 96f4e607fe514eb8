"""Checks of any dataset's names, sizes and labels, also a user's own.

Shapes: n = samples of a split.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flexray.core.checks import listed
from flexray.core.errors import DataError
from flexray.data.base import SPLITS, Array, Dataset, Outline, Presence, Split
from flexray.data.checks import check_party_name, check_task, name_list
from flexray.tasks import LabelArray

log = logging.getLogger("flexray")


def check_outline(outline: Outline, dataset: Dataset, predicts: bool) -> Outline:
    """Return the outline in plain types; refuse impossible names and empty splits.

    Where a saved model ``predicts``, there may be no test samples.
    """
    where = _where(dataset)
    if not isinstance(outline, Outline):
        raise DataError(f"{where}: outline() returned {type(outline).__name__}, expected an Outline")
    names = name_list(f"{where}: parties", outline.parties)
    for name in names:
        check_party_name(name, f"{where}: parties", DataError)
    check_task(outline.task.loss, outline.task.num_outputs)
    sizes = _sizes(outline.sizes, where)
    for split in SPLITS:
        if not sizes[split] and not (split == "val" or (split == "test" and predicts)):
            raise DataError(f"{where}: its outline has 0 {split} samples; expected at least 1")
    _check_present(outline.present, sizes, names, where)
    if outline.present is not None and not predicts:
        check_everybody_trains(outline.present, names)
    return replace(outline, parties=tuple(names), sizes=sizes)


def _check_present(present: Any, sizes: Mapping[Split, int], parties: Sequence[str], where: str) -> None:
    """Refuse anything but truth values [samples, parties] of every split."""
    if present is None:
        return
    for split in SPLITS:
        given = np.asarray(present.get(split, ()) if isinstance(present, Mapping) else ())
        if given.shape != (sizes[split], len(parties)) or given.dtype != np.bool_:
            expected = f"truth values of shape ({sizes[split]}, {len(parties)})"
            raise DataError(f"{where}: present: {split}: expected {expected}, got {given.dtype} of {given.shape}")


def check_everybody_trains(present: Presence, parties: Sequence[str]) -> None:
    """Refuse a party that has no training sample."""
    for k, name in enumerate(parties):
        if not present["train"][:, k].any():
            raise DataError(f"party '{name}': has none of the {len(present['train'])} training samples; expected some")


def _sizes(given: Any, where: str) -> dict[Split, int]:
    if not isinstance(given, Mapping) or set(given) != set(SPLITS):
        raise DataError(f"{where}: sizes: expected the number of samples of train, val and test, got {given!r}")
    for split in SPLITS:
        if not isinstance(given[split], int | np.integer) or given[split] < 0:
            raise DataError(f"{where}: sizes: expected a whole number of {split} samples, got {given[split]!r}")
    return {split: int(given[split]) for split in SPLITS}


def load_labels(dataset: Dataset, outline: Outline, predicts: bool) -> dict[Split, LabelArray]:
    """Load the labels; refuse a number of them other than in the outline, and labels unsuitable for the task.

    Where a saved model ``predicts``, splits may lack labels.
    """
    where, given = _where(dataset), dataset.labels()
    labels: dict[Split, LabelArray] = {}
    for split in SPLITS:
        if split not in given and predicts:
            continue
        labels_n: Array = np.asarray(given.get(split, ()))
        found, expected = labels_n.shape[0] if labels_n.ndim else 0, outline.sizes[split]
        if found != expected:
            raise DataError(f"{where}: {split} has {found} labels; its outline tells of {expected} samples")
        labels[split] = outline.task.check_labels(labels_n, f"{where}: {split} labels")
    return labels


def check_classes(labels_n: Array, dataset: Dataset, outline: Outline) -> None:
    """Refuse training labels of one class only; warn of numbers below the largest without samples."""
    task = outline.task
    if not task.is_classification:
        return
    where, found = _where(dataset), np.unique(labels_n).tolist()
    if len(found) == 1:
        name = repr(task.classes[found[0]]) if task.classes else found[0]
        raise DataError(f"{where}: all training samples are of one class only, {name}; expected two classes or more")
    lacking = sorted(set(range(found[-1])).difference(found))
    if found[0] > 0 and not task.classes and outline.source != "synthetic":
        told = listed([*map(str, lacking[:4])], 3)
        classes = f"class {told} has" if len(lacking) == 1 else f"classes {told} have"
        log.warning("%s: labels are numbers from 0; %s no training samples", where, classes)


def without(outline: Outline, parties: Collection[int]) -> Outline:
    """Return the outline as if these parties (0-based) had no sample at all."""
    count = len(outline.parties)
    present = outline.present or {split: np.ones((size, count), np.bool_) for split, size in outline.sizes.items()}
    stays_k = np.array([k not in parties for k in range(count)])
    return replace(outline, present={split: has_nk & stays_k for split, has_nk in present.items()})


def samples_by_party(outline: Outline) -> dict[str, dict[str, dict[str, int]]]:
    """Return how many samples of every split each party has, and how many it lacks; nothing if all have all."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for split, has_nk in (outline.present or {}).items():
        for k, name in enumerate(outline.parties if len(has_nk) else ()):
            has = int(has_nk[:, k].sum())
            found.setdefault(name, {})[split] = {"has": has, "missing": len(has_nk) - has}
    return found


def _where(dataset: Dataset) -> str:
    return f"dataset ({type(dataset).__name__})"
