"""The next batches of big data, read by threads while the party computes.

Decoding and resizing a picture releases Python's lock, so threads are enough. Memory holds the announced batches and no
others. What is read does not depend on the thread that reads it, so numbers do not change.

Shapes: b = samples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from flexray.data.base import IdArray, Split
from flexray.data.batches import Batch

Read = Callable[[IdArray, int], Tensor]
"""From sample IDs [b] and the epoch to their content [b, ...]."""


@runtime_checkable
class ReadsAhead(Protocol):
    """Features that read batches ahead."""

    def expect(self, batches: Iterable[Batch]) -> None:
        """Start to read the first of these (possibly endless) batches; forget all others announced before."""


def expect(features: object, batches: Iterable[Batch]) -> None:
    """Announce the batch that is due and those after it to features that read ahead."""
    announce = getattr(features, "expect", None)  # isinstance of a protocol is slow, and this is asked for every batch
    if announce is not None:
        announce(batches)


class Reader:
    """Reads batches of one party: announced ones ahead, in threads, others when they are taken.

    Args:
        reads: How to read samples of each split; called from several threads at once.
        workers: Number of threads; a batch is cut into as many pieces. 0 reads nothing ahead.
        ahead: Number of batches read ahead of the present one.
    """

    def __init__(self, reads: Mapping[Split, Read], workers: int = 0, ahead: int = 0) -> None:
        self._reads, self._workers, self._ahead = reads, workers, ahead
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="reader") if workers else None
        self._pending: dict[tuple[Split, int, bytes], list[Future[Tensor]]] = {}

    def expect(self, split: Split, batches: Iterable[Batch]) -> None:
        """Start to read the first of ``batches`` and those ahead of it; forget all others."""
        if self._pool is None:
            return
        wanted = {(split, epoch, ids_b.tobytes()): (ids_b, epoch) for ids_b, epoch in islice(batches, 1 + self._ahead)}
        for key in [key for key in self._pending if key not in wanted]:
            for future in self._pending.pop(key):
                future.cancel()
        for key, (ids_b, epoch) in wanted.items():
            if key not in self._pending:
                pieces = np.array_split(ids_b, max(1, min(self._workers, len(ids_b))))
                self._pending[key] = [self._pool.submit(self._reads[split], piece, epoch) for piece in pieces]

    def take(self, split: Split, batch: Batch) -> Tensor:
        """Return the content [b, ...] of a batch; errors of reading it are raised here."""
        futures = self._pending.pop((split, batch.epoch, batch.ids_b.tobytes()), None)
        if futures is None:
            return self._reads[split](batch.ids_b, batch.epoch)
        return torch.cat([future.result() for future in futures])
