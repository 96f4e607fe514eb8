"""Mini-batches drawn from a seed that all parties share, so that no sample IDs are exchanged.

Shapes: b = samples of a batch.
"""

from dataclasses import (
    dataclass,
)  # not annotations from __future__: as strings, those of a named tuple cannot be resolved
from typing import NamedTuple

import numpy as np

from flexray.core.errors import ConfigError
from flexray.core.seeds import generator
from flexray.data.base import IdArray


class Batch(NamedTuple):
    """Sample IDs of one global round (VAFL: of one turn of a party)."""

    ids_b: IdArray
    epoch: int


@dataclass
class BatchStream:
    """The sequence of mini-batches of a run.

    By default every epoch is a fresh permutation cut into batches of ``size``, the last of which may be shorter. A last
    batch of one sample joins the batch before it, since batch normalization cannot train on one sample.

    Args:
        num_samples: N, the number of training samples.
        size: B, the batch size, 1 .. N.
        seed: The run's seed.
        stream: Name of the stream; VAFL gives each party its own.
        replacement: Draw B of the N samples uniformly with replacement; an epoch still has N / B batches.
        drop_last: Leave out the short last batch of an epoch.
    """

    num_samples: int
    size: int
    seed: int
    stream: str = "batches"
    replacement: bool = False
    drop_last: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.num_samples:
            raise ConfigError(
                f"dataset.batch_size: expected 1 to {self.num_samples} (the number of training samples),"
                f" got {self.size}"
            )
        self._epoch = -1
        self._order: IdArray | None = None

    @property
    def per_epoch(self) -> int:
        """Number of batches in one epoch."""
        whole, rest = divmod(self.num_samples, self.size)
        joins = rest == 1 and self.size > 1
        return whole + (1 if rest and not self.drop_last and not joins else 0)

    @property
    def sizes(self) -> set[int]:
        """Return the numbers of samples that a batch may have."""
        last = self.size if self.replacement or self.drop_last else self.num_samples - (self.per_epoch - 1) * self.size
        return {last} if self.per_epoch == 1 else {self.size, last}

    def batch(self, index: int) -> Batch:
        """Return batch ``index`` (0-based, counted over the whole run)."""
        epoch, place = divmod(index, self.per_epoch)
        if self.replacement:
            draw = generator(self.seed, self.stream, "draw", index)
            return Batch(draw.integers(self.num_samples, size=self.size), epoch)
        if self._order is None or epoch != self._epoch:
            self._order = generator(self.seed, self.stream, "epoch", epoch).permutation(self.num_samples)
            self._epoch = epoch
        start = place * self.size
        last = place == self.per_epoch - 1 and not self.drop_last
        return Batch(self._order[start : None if last else start + self.size], epoch)


def chunks(ids_n: IdArray, size: int) -> list[IdArray]:
    """Cut ``ids_n`` into pieces of ``size``; a last piece of one sample joins the one before."""
    cuts = list(range(size, len(ids_n), size))
    if cuts and len(ids_n) - cuts[-1] == 1:
        cuts.pop()
    return np.split(ids_n, cuts)
