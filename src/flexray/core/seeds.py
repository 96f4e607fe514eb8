"""Random streams, one per purpose, derived from the run's seed.

Every stream is named by a path such as ``(seed, "batches")`` or ``(seed, 3, "round", 17)``. Nothing is carried
from one round to the next, so a stream is the same in whatever process it is drawn, and a resumed run needs no
stored generator state.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np

SEEDS = 2.0**63
"""The number of seeds that :func:`derive` returns."""
LARGEST_BELOW_1 = math.nextafter(1.0, 0.0)


def derive(seed: int, *path: int | str) -> int:
    """Return a 63-bit seed for the stream named by ``path``."""
    text = repr((seed, *path)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def uniform(seed: int, *path: int | str) -> float:
    """Return the number in [0, 1) that ``path`` names."""
    return min(derive(seed, *path) / SEEDS, LARGEST_BELOW_1)


def generator(seed: int, *path: int | str) -> np.random.Generator:
    """Return a NumPy generator for the stream named by ``path``."""
    return np.random.Generator(np.random.PCG64(derive(seed, *path)))
