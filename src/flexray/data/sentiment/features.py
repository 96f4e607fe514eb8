"""One party's sequences or tokens; a batch is padded to its own longest sample.

Shapes: n = samples of a split, b = samples of a batch, t = steps of the longest one, d = features of a step, s = steps
of all samples together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flexray.data.base import Array, Fitted, IdArray, numpy_type
from flexray.data.rows import scaled


class _Sequences:
    """Samples of ``lengths_n`` steps each, at least 1, stored one after the other; ``limit`` is the most steps used."""

    def __init__(self, steps_s: Array, lengths_n: IdArray, limit: int) -> None:
        self._steps_s, self._limit = steps_s, limit
        self._starts_n = np.cumsum(lengths_n) - lengths_n
        self._lengths_n = np.minimum(lengths_n, limit)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """(largest number of steps, and features of a step if there are several)."""
        return (self._limit, *self._steps_s.shape[1:])

    def __len__(self) -> int:
        return len(self._lengths_n)

    def _padded(self, ids_b: IdArray, dtype: npt.DTypeLike, padding: int, fitted: Fitted) -> tuple[Array, IdArray]:
        """Return samples [b, t, ...], scaled if there is anything ``fitted``, and their lengths [b]."""
        lengths_b = self._lengths_n[ids_b]
        shape = (len(ids_b), int(lengths_b.max(initial=0)), *self._steps_s.shape[1:])
        padded_bt = np.full(shape, padding, dtype=dtype)
        for place, (start, length) in enumerate(zip(self._starts_n[ids_b], lengths_b, strict=True)):
            steps = self._steps_s[start : start + length]
            padded_bt[place, :length] = scaled(steps, fitted) if fitted else steps
        return padded_bt, lengths_b


class StepFeatures(_Sequences):
    """Sequences [t, d] of different lengths; a batch is (steps [b, t, d], lengths [b]), padded with zeros."""

    def __init__(
        self, steps_sd: Array, lengths_n: IdArray, limit: int, dtype: torch.dtype, fitted: Fitted | None = None
    ) -> None:
        super().__init__(steps_sd, lengths_n, limit)
        self._dtype, self.fitted = dtype, fitted or {}

    def batch(self, ids_b: IdArray, epoch: int) -> tuple[Tensor, ...]:
        """Return (steps [b, t, d], lengths [b]); nothing is augmented, so ``epoch`` is ignored."""
        padded_btd, lengths_b = self._padded(ids_b, numpy_type(self._dtype), 0, self.fitted)
        return torch.from_numpy(padded_btd).to(self._dtype), torch.from_numpy(lengths_b)


class TokenFeatures(_Sequences):
    """Token IDs of texts of different lengths; a batch is (token IDs [b, t], mask [b, t]), padding has mask 0.

    ``offers`` has constructor arguments for models of these tokens, ``pretrained`` or ``vocab_size``.
    """

    def __init__(
        self, tokens_s: Array, lengths_n: IdArray, limit: int, offers: Mapping[str, Any], padding: int = 0
    ) -> None:
        super().__init__(tokens_s, lengths_n, limit)
        self.offers, self._padding = dict(offers), padding

    def batch(self, ids_b: IdArray, epoch: int) -> tuple[Tensor, ...]:
        """Return (token IDs [b, t], mask [b, t]); nothing is augmented, so ``epoch`` is ignored."""
        tokens_bt, lengths_b = self._padded(ids_b, np.int64, self._padding, {})
        mask_bt = (np.arange(tokens_bt.shape[1]) < lengths_b[:, None]).astype(np.int64)
        return torch.from_numpy(tokens_bt), torch.from_numpy(mask_bt)
