"""VAFL: the server's table of last embeddings (docs/algorithms.md, VAFL).

Shapes: b = samples of a batch, n = training samples, k = parties, o = sum of embedding widths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flexray.engine.parties.spec import Shared


class Arrivals:
    """VAFL: the events [n, k] in which the last embeddings of every training sample arrived.

    Args:
        shared: What all participants know.
        widths: The parties' embedding widths; none before the table is filled.
    """

    def __init__(self, shared: Shared, widths: Sequence[int]) -> None:
        parties = len(widths)
        self._streams = [shared.turns(k + 1) for k in range(parties)]
        self._sends_k = torch.tensor([width > 0 for width in widths], dtype=torch.float64)
        rows = shared.outline.sizes["train"] if parties else 0
        self.event_nk = torch.zeros((rows, parties), dtype=torch.int64)

    def note(self, event: int, party: int, turn: int) -> tuple[Tensor, tuple[float, ...]]:
        """Note that the batch of a party's turn arrives; return its samples [b], and each party's mean age in them.

        That of a party without embeddings is 0.
        """
        ids_b = torch.from_numpy(self._streams[party].batch(turn).ids_b)
        self.event_nk[ids_b, party] = event
        ages_k = (event - self.event_nk[ids_b]).double().mean(dim=0) * self._sends_k
        return ids_b, tuple(ages_k.tolist())


@dataclass
class Mixed:
    """VAFL: the samples of a turn's batch [b], its party's block and, beside the stored ones, all blocks [b, o].

    ``staleness`` is each party's mean age, ``up_bytes`` and ``down_bytes`` are the sizes of its message and the answer.
    """

    ids_b: Tensor
    own_bo: Tensor
    embeddings_bo: Tensor
    staleness: tuple[float, ...]
    up_bytes: int
    down_bytes: int


@dataclass
class Table:
    """VAFL: the last embeddings [n, o] of every training sample, and when they arrived."""

    embeddings_no: Tensor
    arrivals: Arrivals
