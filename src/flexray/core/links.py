"""What happens to embeddings on their way to the server, and what that costs (docs/algorithms.md, Messages).

A party may clip every sample's embedding and add Gaussian noise, for privacy; send the largest values of a sample only,
and those in few bits (as in C-VFL, Castiglia et al., 2022). The receivers get numbers as before, and count the
bytes that a compressed message has. A party's own local iterations use its embeddings as they are; evaluation and
prediction, which measure the model and not the link, too.

Shapes: b = samples, o = embedding width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flexray.core.messages import FloatArray
from flexray.core.seeds import generator


@dataclass(frozen=True)
class Wire:
    """What one party does to the embeddings that it sends; by default nothing.

    Args:
        clip: Largest Euclidean norm of a sample's embedding; None: no clipping.
        noise: Standard deviation of Gaussian noise on every value, after clipping.
        top_k: Share of the values of every sample that is sent, those of largest magnitude; the others arrive as 0.
        bits: Bits per value: uniform quantization between the smallest and largest value of the message; None: floats
            as they are.
    """

    clip: float | None = None
    noise: float = 0.0
    top_k: float = 1.0
    bits: int | None = None

    def values(self, width: int) -> int:
        """Return how many values of a sample of ``width`` are sent."""
        return min(width, max(1, math.ceil(self.top_k * width - 1e-9)))  # 0.07 * 100 is above 7

    def nbytes(self, samples: int, width: int, itemsize: int) -> int:
        """Return the bytes of a message: values, their places where only some are sent, and the quantized range."""
        count = samples * self.values(width)
        places = 0 if self.values(width) == width else math.ceil(count * (width - 1).bit_length() / 8)
        if self.bits is None:
            return count * itemsize + places
        return math.ceil(count * self.bits / 8) + 2 * itemsize + places

    def send(self, block_bo: FloatArray, seed: int, *path: int | str) -> FloatArray:
        """Return what arrives of ``block_bo``; noise comes from the random stream that ``seed`` and ``path`` name."""
        if self is PLAIN or self == PLAIN:
            return block_bo
        sent = np.array(block_bo)
        if self.clip is not None:
            norm_b1 = np.linalg.norm(sent, axis=1, keepdims=True)
            sent *= np.minimum(1.0, self.clip / np.maximum(norm_b1, np.finfo(sent.dtype).tiny)).astype(sent.dtype)
        if self.noise:
            draw = generator(seed, "noise", *path)
            sent += draw.normal(scale=self.noise, size=sent.shape).astype(sent.dtype)
        kept = self._largest(sent)
        if self.bits is not None and kept.any():
            sent[kept] = _quantized(sent[kept], self.bits)
        sent[~kept] = 0
        return sent

    def _largest(self, block_bo: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which values are sent; of equal ones the first."""
        width = block_bo.shape[1]
        order_bo = np.argsort(-np.abs(block_bo), axis=1, kind="stable")
        kept_bo = np.zeros(block_bo.shape, dtype=bool)
        np.put_along_axis(kept_bo, order_bo[:, : self.values(width)], True, axis=1)
        return kept_bo


PLAIN = Wire()


def _quantized(values: FloatArray, bits: int) -> FloatArray:
    """Return the values, each moved to the nearest of ``2 ** bits`` levels between the smallest and the largest."""
    low, high = values.min(), values.max()
    if not np.isfinite(low) or not np.isfinite(high) or low == high:
        return values
    step = (float(high) - float(low)) / (2**bits - 1)
    levels: FloatArray = (low + np.rint((values - low) / step) * step).astype(values.dtype)
    return levels
