"""The next batches of big data, read while the party computes (SPEC 2: batches are known ahead).

Threads do it, not processes as in torch's DataLoader: decoding and resizing a picture leaves Python's lock free (two
threads read JPEGs as fast as two of its processes), and a party neither starts others nor is in memory twice. Memory
holds the batches that were announced and no others. What is read does not depend on who reads it, so numbers do not
change.

Shapes: b = samples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np

from flexray.data.base import Array, IdArray
from flexray.data.batches import Batch

Read = Callable[[IdArray, int], Array]
"""From sample IDs [b] and the epoch to their content [b, ...]."""


@runtime_checkable
class ReadsAhead(Protocol):
    """Features that want to know which batches come next."""

    @property
    def batches_ahead(self) -> int:
        """How many batches after the present one to announce."""

    def expect(self, batches: Sequence[Batch]) -> None:
        """Start to read these batches, and forget all others that were announced."""


def expect(features: object, batches: Iterable[Batch]) -> None:
    """Tell features that read ahead which batch is due, the first, and which come next."""
    if isinstance(features, ReadsAhead):
        features.expect(list(islice(batches, 1 + features.batches_ahead)))


class Ahead:
    """Reads announced batches in threads, and any other batch when it is asked for.

    Args:
        read: Reads samples; called from several threads at once.
        pool: The threads, of which a party has one set for all its splits; None reads nothing ahead.
        workers: How many threads there are; a batch is cut into so many pieces.
    """

    def __init__(self, read: Read, pool: ThreadPoolExecutor | None, workers: int) -> None:
        self._read = read
        self._pool = pool
        self._workers = workers
        self._pending: dict[tuple[int, bytes], list[Future[Array]]] = {}

    def expect(self, batches: Sequence[Batch]) -> None:
        """Start to read ``batches``, and forget all others that were announced."""
        if self._pool is None:
            return
        wanted = {_key(*batch): batch for batch in batches}
        for key in [key for key in self._pending if key not in wanted]:
            for future in self._pending.pop(key):
                future.cancel()
        for key, (ids_b, epoch) in wanted.items():
            if key not in self._pending:
                pieces = np.array_split(ids_b, max(1, min(self._workers, len(ids_b))))
                self._pending[key] = [self._pool.submit(self._read, piece, epoch) for piece in pieces]

    def take(self, ids_b: IdArray, epoch: int) -> Array:
        """Return the content [b, ...] of samples ``ids_b``; what went wrong while it was read is raised here."""
        futures = self._pending.pop(_key(ids_b, epoch), None)
        if futures is None:
            return self._read(ids_b, epoch)
        return np.concatenate([future.result() for future in futures])


def _key(ids_b: IdArray, epoch: int) -> tuple[int, bytes]:
    return epoch, ids_b.tobytes()
