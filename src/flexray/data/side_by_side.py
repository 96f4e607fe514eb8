"""The same samples of several parties at once: for many parties with small samples, where calls take the time.

Shapes: m = parties, n = samples of a split, b = samples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from flexray.data.base import ArrayFeatures, Features, IdArray

LARGE = 1024
"""Bytes of a sample from which on copying takes longer than a call."""


def side_by_side(features: Sequence[Features]) -> Callable[[IdArray], Tensor] | None:
    """Return how samples ``ids_b`` of all parties are loaded at once, [m, b, ...]; None: one party after another.

    The parties' arrays become views of one array.

    Args:
        features: Those of each party, of the same split.
    """
    whole = [part for part in features if type(part) is ArrayFeatures and part.whole is not None]
    arrays = [part.whole for part in whole if part.whole is not None]
    if len(whole) < len(features) or len(features) < 2:
        return None
    first = arrays[0]
    alike = all(array.shape == first.shape and array.dtype == first.dtype for array in arrays)
    if not alike or first[:1].nbytes > LARGE:
        return None
    all_mn = np.empty((len(arrays), *first.shape), first.dtype)
    del first, arrays
    for own_n, part in zip(all_mn, whole, strict=True):
        part.move_to(own_n)  # what it had is free at once
    kind = torch.from_numpy(all_mn).dtype

    def load(ids_b: IdArray) -> Tensor:
        x = torch.empty(len(all_mn), len(ids_b), *all_mn.shape[2:], dtype=kind)  # in torch's memory, aligned as ever
        np.take(all_mn, ids_b, axis=1, out=x.numpy(), mode="clip")  # which no number exceeds; else NumPy copies twice
        return x

    return load
