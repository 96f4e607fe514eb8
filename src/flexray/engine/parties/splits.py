"""Whole splits embedded, for evaluation and prediction: by the parties of a stack together, by the others one by one.

A stack embeds a split together where that gives the bits of each party alone: all sizes of its parts are tried on dense
random numbers, and the first time some parties embed it both ways.

Shapes: m = parties of a stack, n = samples of a split, b = samples of a part of it, o = embedding width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from flexray.core.messages import FloatArray
from flexray.data.base import IdArray, Split
from flexray.data.batches import chunks
from flexray.data.side_by_side import Load
from flexray.engine.parties.kernels import layers_agree, remembered
from flexray.engine.parties.layers import layers_of
from flexray.engine.parties.party import Party
from flexray.engine.parties.spec import Shared
from flexray.engine.parties.stack import Stack

MANY = 64
"""Parties of a stack from which on trying pays: it takes as long as a few evaluations of so many."""
AT_ONCE = 256
"""Parties whose values are in memory together."""
SAMPLE = 2
"""Parties at each end of a stack that embed a split alone, too."""


class Splits:
    """Embeds whole splits of all parties of a process.

    Args:
        parties: The parties.
        stacks: Those of them that share operations.
        shared: What all participants know.
    """

    def __init__(self, parties: Sequence[Party], stacks: Sequence[Stack], shared: Shared) -> None:
        self._parties, self._shared = parties, shared
        self._stacks = [StackedSplits(stack, shared) for stack in stacks if len(stack.parties) >= MANY]

    def embed(self, split: Split, mode: Literal["train", "eval"], as_sent: bool) -> tuple[FloatArray, ...]:
        """Return the embeddings [n, o] of every party; arguments as for :meth:`Party.embed_split`."""
        found: dict[int, FloatArray] = {}
        for stack in self._stacks if mode == "eval" and not as_sent else ():
            found |= stack.embed(split)
        size, both = self._shared.eval_batch, ((party, found.get(party.index - 1)) for party in self._parties)
        return tuple(
            party.embed_split(split, size, mode, as_sent) if block_no is None else block_no for party, block_no in both
        )


class StackedSplits:
    """Embeds whole splits of a stack.

    Args:
        stack: The stack.
        shared: What all participants know.
    """

    def __init__(self, stack: Stack, shared: Shared) -> None:
        self._stack, self._shared = stack, shared

    def embed(self, split: Split) -> dict[int, FloatArray]:
        """Return everybody's embeddings [n, o] in evaluation mode, by number (0-based); nothing if bits differ."""
        load = self._stack.loads(split)
        if load is None or any(self._shared.lacks(number, split) for number in self._stack.numbers):
            return {}
        parts = chunks(np.arange(len(self._stack.parties[0].features[split])), self._shared.eval_batch)
        all_mno = self._together(load, parts)
        if self._shared.stack == "exact":
            x_mb, sizes = load(parts[0][:1]), tuple(map(len, parts))
            layers = layers_of(self._stack.parties[0].model) or []
            key = (tuple(map(repr, layers)), x_mb.shape, x_mb.dtype, sizes, self._shared.threads)
            agrees = partial(self._agrees, layers, x_mb.shape[2:], all_mno, split, sizes)
            if not remembered(("split", *key), agrees):
                return {}
        return dict(zip(self._stack.numbers, all_mno.numpy(), strict=True))

    def _together(self, load: Load, parts: Sequence[IdArray]) -> Tensor:
        """Return the embeddings [m, n, o]."""
        return torch.cat([self._stack.evaluate(load(ids_b), AT_ONCE) for ids_b in parts], 1)

    def _agrees(
        self, layers: Sequence[nn.Module], sample_shape: Sequence[int], all_mno: Tensor, split: Split,
        sizes: Sequence[int],
    ) -> bool:  # fmt: skip
        """Compare kernels on random numbers, and some parties' embeddings with those that each computes alone."""
        parties, many, dtype = self._stack.parties, len(self._stack.parties), self._shared.torch_dtype
        if not all(layers_agree(layers, sample_shape, size, many, dtype) for size in set(sizes)):
            return False
        for k in sorted({*range(many)[:SAMPLE], *range(many)[-SAMPLE:]}):
            alone_no = parties[k].embed_split(split, self._shared.eval_batch)
            if alone_no.tobytes() != all_mno[k].numpy().tobytes():
                return False
        return True
