"""Columns dealt out to parties: in equal parts, by importance or by correlation, as VertiBench does.

Wu, Hou, He, *VertiBench: Advancing Feature Distribution Diversity in Vertical Federated Learning Benchmarks*, 2024.

Shapes: n = rows, f = columns, k = parties, m = some of them, d = columns of a party, or the fewer of two parties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flexray.core.checks import MANY, fraction, one_of, positive, shown, whole
from flexray.core.errors import ConfigError
from flexray.core.seeds import generator
from flexray.data.checks import name_list

FloatArray = npt.NDArray[np.float64]
Cut = tuple[tuple[int, ...], ...]
"""The columns of every party, by number, in order."""

CUTS = ("columns", "equal", "importance", "correlation")
TRIES, MOST_TRIES, FAILURES = 60, 4000, 10
"""Exchanges of two columns that a search tries, for each column and at most; after so many for each column that were of
no use in a row, it starts anew."""
DIGITS = 9
"""Decimals of a score that count, so that rounding on another machine finds the same cut."""


@dataclass(frozen=True)
class Deal:
    """How columns go to parties.

    Args:
        how: One of :data:`CUTS`; ``columns``: they are listed for each party.
        alpha: Of the Dirichlet distribution of the parties' shares, for ``importance``.
        beta: How far columns that correlate are apart, from 0 to 1, for ``correlation``.
        seed: Draws the cut.

    Raises:
        ConfigError: One is out of range.
    """

    how: str = "columns"
    alpha: float = 1.0
    beta: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("dataset.cut", self.how, CUTS)
        positive("dataset.alpha", self.alpha)
        fraction("dataset.beta", self.beta)
        whole("dataset.cut_seed", self.seed, low=0)

    def names(self, parties: Any) -> list[str]:
        """Return the parties' names, from these or their number."""
        if isinstance(parties, int) and not isinstance(parties, bool):
            return [f"party_{k + 1}" for k in range(whole("dataset.parties", parties, low=1, high=MANY))]
        if isinstance(parties, str) or not isinstance(parties, Sequence):
            raise ConfigError(
                f"dataset.parties: expected the number of parties or a list of their names with dataset.cut={self.how},"
                f" got {shown(parties)}"
            )
        return name_list("dataset.parties", parties)

    def cut(self, columns: int, parties: int, read: Callable[[], FloatArray]) -> Cut:
        """Return the columns of every party; ``read`` is called for the features [n, f] if the cut depends on them."""
        if self.how == "importance":
            return importance_cut(columns, parties, self.alpha, self.seed)
        if self.how == "correlation":
            return correlation_cut(read(), parties, self.beta, self.seed)
        return equal_cut(columns, parties)


def equal_cut(columns: int, parties: int) -> Cut:
    """Return columns in their order, in parts of equal size; the first have one more where that leaves a rest."""
    return tuple(tuple(part.tolist()) for part in np.array_split(np.arange(columns), parties))


def importance_cut(columns: int, parties: int, alpha: float, seed: int) -> Cut:
    """Return a random cut in which parties have unequal shares of what the columns are worth.

    The shares are drawn from the symmetric Dirichlet distribution of ``alpha``. Every party gets one random column;
    every other column goes to a party by chance, which is the party's share. So a party's expected part of the sum of
    any importances is nearly its share, whatever these are, and no model is asked for them.
    """
    draw = generator(seed, "cut", "importance")
    shares_k = draw.dirichlet(np.full(parties, alpha))
    if not np.isfinite(shares_k).all() or not shares_k.any():  # all shares underflow: one party has all
        shares_k = np.eye(parties)[draw.integers(parties)]
    owner_f = draw.choice(parties, size=columns, p=shares_k / shares_k.sum())
    owner_f[draw.choice(columns, size=parties, replace=False)] = np.arange(parties)
    return tuple(tuple(np.flatnonzero(owner_f == k).tolist()) for k in range(parties))


def correlation_cut(features_nf: FloatArray, parties: int, beta: float, seed: int) -> Cut:
    """Return a cut into equal parts, between the least and the most correlation across parties that a search finds.

    The score of a cut is :func:`icor`; wanted is that which is ``beta`` of the way from the least to the largest. With
    0 correlated columns are together at one party, with 1 they are apart.
    """
    corr_ff, sizes = spearman(features_nf), [len(part) for part in equal_cut(features_nf.shape[1], parties)]

    def search(name: str, cost: Callable[[float], float]) -> tuple[float, Cut]:
        return _search(corr_ff, sizes, cost, generator(seed, "cut", "correlation", name))

    least, together = search("least", lambda score: score)
    most, apart = search("most", lambda score: -score)
    if beta in (0, 1) or least == -most:
        return apart if beta else together
    wanted = beta * -most + (1 - beta) * least
    return search("between", lambda score: round(abs(score - wanted), DIGITS))[1]


def _search(
    corr_ff: FloatArray, sizes: Sequence[int], cost: Callable[[float], float], draw: np.random.Generator
) -> tuple[float, Cut]:
    """Return the least cost that exchanges of two columns lead to from several random cuts, and its cut."""
    found, left = list[tuple[float, Cut]](), min(TRIES * len(corr_ff), MOST_TRIES)
    while left > 0:
        best, cut, tries = _descend(corr_ff, sizes, cost, draw, left)
        found.append((best, cut))
        left -= tries
    return min(found)


def _descend(
    corr_ff: FloatArray, sizes: Sequence[int], cost: Callable[[float], float], draw: np.random.Generator, most: int
) -> tuple[float, Cut, int]:
    """Return the least cost that exchanges lead to from one random cut, its cut, and the number of exchanges tried."""
    owner_f = np.repeat(np.arange(len(sizes)), sizes)
    order_f, tries, failures = draw.permutation(len(owner_f)), 0, 0
    score_kk = _scores(corr_ff, _cut(order_f, sizes))
    best = cost(_excess(score_kk))
    while tries < most and failures < FAILURES * len(owner_f):
        one, other = draw.integers(len(owner_f), size=2)
        tries, failures = tries + 1, failures + 1
        if (first := owner_f[one]) == (second := owner_f[other]):
            continue
        order_f[[one, other]] = order_f[[other, one]]
        changed_kk = _scores(corr_ff, _cut(order_f, sizes), score_kk, (first, second))
        if (now := cost(_excess(changed_kk))) < best:
            best, score_kk, failures = now, changed_kk, 0
        else:
            order_f[[one, other]] = order_f[[other, one]]
    return best, _cut(order_f, sizes), tries


def _cut(order_f: npt.NDArray[np.int64], sizes: Sequence[int]) -> Cut:
    """Return columns in some order as parts of these sizes."""
    return tuple(tuple(sorted(part.tolist())) for part in np.split(order_f, np.cumsum(sizes)[:-1]))


def spearman(features_nf: FloatArray) -> FloatArray:
    """Return the rank correlation of every two columns [f, f]; a constant column has none with any, itself included."""
    import pandas as pd  # other cuts, and other tables, do without

    corr_ff: FloatArray = pd.DataFrame(features_nf).corr(method="spearman").fillna(0.0).to_numpy()
    return corr_ff


def icor(corr_ff: FloatArray, cut: Cut) -> float:
    """Return how much more columns correlate across parties than within (VertiBench, Icor).

    It is the mean over parties i and other parties j of Pcor(i, j) - Pcor(i, i), where Pcor of two sets of columns is
    the deviation of the singular values of their block of correlations, over the square root of d.
    """
    return _excess(_scores(corr_ff, cut))


def _excess(score_kk: FloatArray) -> float:
    within_k, parties = np.diag(score_kk), len(score_kk)
    across_k = (score_kk.sum(axis=0) - within_k) / max(parties - 1, 1)
    return round(float((across_k - within_k).mean()), DIGITS)


def _scores(
    corr_ff: FloatArray, cut: Cut, known_kk: FloatArray | None = None, changed: Sequence[int] | None = None
) -> FloatArray:
    """Return Pcor of every two parties; ``known_kk`` holds but for the parties that ``changed``."""
    sizes_k, none = np.array([len(part) for part in cut]), len(corr_ff)
    padded_ff = np.pad(corr_ff, (0, 1))  # a column of zeros adds singular values of 0 only
    place_kd = np.array([[*part, *[none] * (sizes_k.max() - len(part))] for part in cut])
    score_kk = np.zeros((len(cut), len(cut))) if known_kk is None else known_kk.copy()
    anew = list(range(len(cut)) if changed is None else changed)
    blocks_mkdd = padded_ff[place_kd[anew][:, None, :, None], place_kd[None, :, None, :]]
    values_mkd, d_mk = np.linalg.svd(blocks_mkdd, compute_uv=False), np.minimum(sizes_k[anew][:, None], sizes_k)
    squares_mk = np.square(values_mkd).sum(axis=2) - values_mkd.sum(axis=2) ** 2 / d_mk
    deviation_mk = np.sqrt(np.maximum(squares_mk, 0.0) / np.maximum(d_mk - 1, 1))
    score_kk[anew] = np.where(d_mk > 1, deviation_mk / np.sqrt(d_mk), 0.0)
    score_kk[:, anew] = score_kk[anew].T
    return score_kk
