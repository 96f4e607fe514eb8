"""Samples of parties whose lists of IDs differ, brought into one order.

Labels tell which samples there are: those of their list that all parties have, or that any has. In a real system the
parties would find that out by private set intersection (or union) before the training.

Shapes: n = samples, k = parties.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from flexray.core.checks import listed, one_of
from flexray.core.errors import DataError
from flexray.data.base import BoolArray, IdArray, Presence, Split

Alignment = Literal["intersection", "union"]
ALIGNMENTS = get_args(Alignment)

log = logging.getLogger("flexray")


@dataclass(frozen=True)
class Aligned:
    """Samples in the order of the labels.

    Args:
        rows_n: Their rows in the list of labels.
        rows_nk: Their rows in each party's own list, -1 where the party lacks one.
    """

    rows_n: IdArray
    rows_nk: IdArray

    @property
    def present_nk(self) -> BoolArray:
        """Which party has which sample."""
        present: BoolArray = self.rows_nk >= 0
        return present

    def taken(self, rows: IdArray | None = None) -> Aligned:
        """Return some of the samples."""
        return self if rows is None else Aligned(self.rows_n[rows], self.rows_nk[rows])


def presence(splits: Mapping[Split, Aligned]) -> Presence | None:
    """Return which party has which sample of every split; None if each has all."""
    whole = all(own.present_nk.all() for own in splits.values())
    return None if whole else {split: own.present_nk for split, own in splits.items()}


def check_alignment(value: Any) -> Alignment | None:
    """Return how lists of IDs are brought together; None: as ever."""
    return None if value is None else one_of("dataset.alignment", value, ALIGNMENTS)


def align_lists(wanted: Iterable[Any], rows_of: Mapping[str, Mapping[Any, int]], how: Alignment, where: str) -> Aligned:
    """Return the samples of a list of labels that all parties have, or any; what is left out is counted in the log.

    Args:
        wanted: IDs of the labels, in order.
        rows_of: Party -> row of each ID in its own list.
        how: ``intersection`` or ``union``.
        where: The file of the labels, for messages.

    Raises:
        DataError: No sample is left.
    """
    ids = list(wanted)
    rows_nk = np.array([[of.get(sample, -1) for of in rows_of.values()] for sample in ids]).reshape(len(ids), -1)
    counts_n = (rows_nk >= 0).sum(axis=1)
    kept_n: BoolArray = counts_n >= (len(rows_of) if how == "intersection" else 1)
    if not kept_n.any():
        told = "all" if how == "intersection" else "any"
        raise DataError(f"{where}: has no sample that {told} of the parties {', '.join(rows_of)} have")
    _log_left_out([ids[row] for row in np.flatnonzero(~kept_n)], where, how)
    known = set(ids)
    for name, of in rows_of.items():
        if strange := [sample for sample in of if sample not in known]:
            log.warning("party '%s': %d samples without labels are left out: %s", name, len(strange), _few(strange))
    return Aligned(np.flatnonzero(kept_n), rows_nk[kept_n])


def _log_left_out(ids: Sequence[Any], where: str, how: Alignment) -> None:
    if ids:
        told = "that not all parties have" if how == "intersection" else "that no party has"
        log.warning("%s: %d samples left out %s: %s", where, len(ids), told, _few(ids))


def _few(ids: Sequence[Any]) -> str:
    return listed([str(sample) for sample in ids[:4]], 3)
