"""The next batches of big data, read while the party computes: batches are known ahead.

Threads do it, or worker processes of torch's DataLoader. Decoding and resizing a picture leaves Python's lock free, so
threads read pictures as fast as processes, and a party neither starts others nor needs shared memory. Processes are for
samples whose reading is Python's work. Memory holds the batches that were announced and no others. What is read does
not depend on who reads it, so numbers do not change.

Shapes: b = samples of a batch.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler
from typing_extensions import override

from flexray.core.errors import FlexrayError
from flexray.data.base import IdArray, Split
from flexray.data.batches import Batch

Read = Callable[[IdArray, int], Tensor]
"""From sample IDs [b] and the epoch to their content [b, ...]."""
Key = tuple[Split, int, bytes]


@runtime_checkable
class ReadsAhead(Protocol):
    """Features that want to know which batches come next."""

    def expect(self, batches: Iterable[Batch]) -> None:
        """Start to read these batches, of which there may be no end, and forget all others that were announced."""


def expect(features: object, batches: Iterable[Batch]) -> None:
    """Tell features that read ahead which batch is due, the first, and which come next."""
    if isinstance(features, ReadsAhead):
        features.expect(batches)


class Reader:
    """Reads batches of one party when they are asked for, none ahead.

    Args:
        reads: How to read samples of each split; may be called from several threads at once, or be copied to processes.
    """

    def __init__(self, reads: Mapping[Split, Read]) -> None:
        self._reads = reads

    def expect(self, split: Split, batches: Iterable[Batch]) -> None:
        """Start to read the first of ``batches`` and some of those that follow; forget all others."""

    def take(self, split: Split, batch: Batch) -> Tensor:
        """Return the content [b, ...] of a batch; what went wrong while it was read is raised here."""
        return self._reads[split](batch.ids_b, batch.epoch)


class ThreadReader(Reader):
    """Reads announced batches in threads.

    Args:
        reads: As in :class:`Reader`.
        workers: How many threads there are; a batch is cut into so many pieces.
        ahead: How many batches after the present one are read.
    """

    def __init__(self, reads: Mapping[Split, Read], workers: int, ahead: int) -> None:
        super().__init__(reads)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="reader")
        self._workers, self._ahead = workers, ahead
        self._pending: dict[Key, list[Future[Tensor]]] = {}

    @override
    def expect(self, split: Split, batches: Iterable[Batch]) -> None:
        wanted = {_key(split, batch): batch for batch in islice(batches, 1 + self._ahead)}
        for key in [key for key in self._pending if key not in wanted]:
            for future in self._pending.pop(key):
                future.cancel()
        for key, (ids_b, epoch) in wanted.items():
            if key not in self._pending:
                pieces = np.array_split(ids_b, max(1, min(self._workers, len(ids_b))))
                self._pending[key] = [self._pool.submit(self._reads[split], piece, epoch) for piece in pieces]

    @override
    def take(self, split: Split, batch: Batch) -> Tensor:
        futures = self._pending.pop(_key(split, batch), None)
        if futures is None:
            return super().take(split, batch)
        return torch.cat([future.result() for future in futures])


class ProcessReader(Reader):
    """Reads announced batches in worker processes of torch's DataLoader, a whole batch in each.

    The processes start with the first announcement and stay. As long as batches are asked for as they were announced,
    the loader goes on; after an evaluation, or a round that the party missed, it starts anew from another batch.

    Args:
        reads: As in :class:`Reader`.
        workers: How many processes there are.
        ahead: How many batches after the present one are read, rounded up to as many for each process.
    """

    def __init__(self, reads: Mapping[Split, Read], workers: int, ahead: int) -> None:
        super().__init__(reads)
        self._feed = _Feed()
        self._loader: DataLoader[Tensor | FlexrayError] = DataLoader(
            _Batches(reads),
            batch_size=None,
            sampler=self._feed,
            num_workers=workers,
            prefetch_factor=max(1, -(-(1 + ahead) // workers)),
            persistent_workers=True,
            worker_init_fn=_ignore_interrupts,
            generator=torch.Generator(),  # else it would draw from the model's
        )
        self._arriving: Iterator[Tensor | FlexrayError] = iter(())

    @override
    def expect(self, split: Split, batches: Iterable[Batch]) -> None:
        coming = iter(batches)
        first = next(coming)
        if not self._feed.goes_on_with(split, first):
            self._feed.begin(split, chain([first], coming))
            self._arriving = iter(self._loader)

    @override
    def take(self, split: Split, batch: Batch) -> Tensor:
        if not self._feed.goes_on_with(split, batch):
            return super().take(split, batch)
        self._feed.asked.popleft()
        try:
            found = next(self._arriving)
        except (OSError, EOFError) as error:  # the loader itself only says so if it notices in time
            raise RuntimeError("a process that reads its data died (dataset.worker_kind=processes)") from error
        if isinstance(found, Tensor):
            return found
        try:
            raise found
        finally:
            del found  # or the error would hold this frame, which holds the error, and with them the processes


class _Feed(Sampler[tuple[Split, Batch]]):
    """What the loader is to read next, and what it was asked for and has not yet delivered."""

    def __init__(self) -> None:
        self.asked: deque[Key] = deque()
        self._split: Split = "train"
        self._batches: Iterable[Batch] = ()

    def begin(self, split: Split, batches: Iterable[Batch]) -> None:
        """Start from other batches."""
        self._split, self._batches = split, batches
        self.asked.clear()

    def goes_on_with(self, split: Split, batch: Batch) -> bool:
        """Whether this batch is the next that the loader delivers."""
        return bool(self.asked) and self.asked[0] == _key(split, batch)

    def __iter__(self) -> Iterator[tuple[Split, Batch]]:
        for batch in self._batches:
            self.asked.append(_key(self._split, batch))
            yield self._split, batch


class _Batches(Dataset[Tensor | FlexrayError]):
    """What a worker process reads; an error of ours travels as a value, or the loader would add its traceback."""

    def __init__(self, reads: Mapping[Split, Read]) -> None:
        self._reads = reads

    def __getitem__(self, key: tuple[Split, Batch]) -> Tensor | FlexrayError:
        split, (ids_b, epoch) = key
        try:
            return self._reads[split](ids_b, epoch)
        except FlexrayError as error:
            return error


def _ignore_interrupts(_: int) -> None:
    """Ctrl-C reaches all processes of a terminal; the party's own ends the round and then these."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _key(split: Split, batch: Batch) -> Key:
    return split, batch.epoch, batch.ids_b.tobytes()
