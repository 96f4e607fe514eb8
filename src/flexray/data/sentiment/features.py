"""One party's sequences or tokens, as batches that are padded to their own longest sample.

Shapes: n = samples of a split, b = samples of a batch, t = steps of the longest one, d = features of a step, s = steps
of all samples together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flexray.data.base import Array, Fitted, IdArray


class StepFeatures:
    """Sequences [t, d] of different lengths; a batch is (steps [b, t, d], lengths [b]), zeros pad.

    Args:
        steps_sd: The steps of all samples, one sample after the other.
        lengths_n: Steps of every sample, at least 1 each.
        limit: Steps after the first ``limit`` are left out.
        dtype: Type of the steps.
        fitted: ``mean`` and ``deviation`` [d] to standardize with, or nothing.
    """

    def __init__(
        self, steps_sd: Array, lengths_n: IdArray, limit: int, dtype: torch.dtype, fitted: Fitted | None = None
    ) -> None:
        self.fitted = fitted or {}
        self._steps, self._dtype = steps_sd, dtype
        self._starts_n = np.cumsum(lengths_n) - lengths_n
        self._lengths_n = np.minimum(lengths_n, limit)
        self._limit = limit

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """(largest number of steps, features of a step)."""
        return (self._limit, *self._steps.shape[1:])

    def __len__(self) -> int:
        return len(self._lengths_n)

    def batch(self, ids_b: IdArray, epoch: int) -> tuple[Tensor, ...]:
        """Return (steps [b, t, d], lengths [b]); ``epoch`` is not used, nothing is augmented."""
        lengths_b = self._lengths_n[ids_b]
        shape = (len(ids_b), int(lengths_b.max(initial=0)), *self._steps.shape[1:])
        padded = np.zeros(shape, dtype=np.float64 if self._dtype == torch.float64 else np.float32)
        for place, (start, length) in enumerate(zip(self._starts_n[ids_b], lengths_b, strict=True)):
            steps = self._steps[start : start + length]
            padded[place, :length] = self._scaled(steps) if self.fitted else steps
        return torch.from_numpy(padded).to(self._dtype), torch.from_numpy(lengths_b)

    def _scaled(self, steps: Array) -> Array:
        return (steps - self.fitted["mean"]) / self.fitted["deviation"]


class TokenFeatures:
    """Token IDs of texts of different lengths; a batch is (token IDs [b, t], mask [b, t]), padding has mask 0.

    Args:
        tokens_s: The token IDs of all samples, one sample after the other.
        lengths_n: Tokens of every sample, at least 1 each.
        limit: Tokens after the first ``limit`` are left out.
        offers: What a model should know of these tokens, ``pretrained`` or ``vocab_size``.
        padding: ID of the padding token.
    """

    def __init__(
        self, tokens_s: Array, lengths_n: IdArray, limit: int, offers: Mapping[str, Any], padding: int = 0
    ) -> None:
        self.offers = dict(offers)
        self._tokens_s, self._padding = tokens_s, padding
        self._starts_n = np.cumsum(lengths_n) - lengths_n
        self._lengths_n = np.minimum(lengths_n, limit)
        self._limit = limit

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """(largest number of tokens,)."""
        return (self._limit,)

    def __len__(self) -> int:
        return len(self._lengths_n)

    def batch(self, ids_b: IdArray, epoch: int) -> tuple[Tensor, ...]:
        """Return (token IDs [b, t], mask [b, t]); ``epoch`` is not used, nothing is augmented."""
        lengths_b = self._lengths_n[ids_b]
        longest = int(lengths_b.max(initial=0))
        tokens_bt = np.full((len(ids_b), longest), self._padding, dtype=np.int64)
        for place, (start, length) in enumerate(zip(self._starts_n[ids_b], lengths_b, strict=True)):
            tokens_bt[place, :length] = self._tokens_s[start : start + length]
        mask_bt = (np.arange(longest) < lengths_b[:, None]).astype(np.int64)
        return torch.from_numpy(tokens_bt), torch.from_numpy(mask_bt)
