"""What stands in for embeddings of samples that a party does not have (docs/algorithms.md, Missing samples).

As with absences, the process of the party completes its messages in the receivers' place; that nothing is sent of such
a sample shows in the bytes. A learned vector is part of the server's model, and receivers fill it in.

Shapes: b = samples of a batch, c = those of them that the party has, o = embedding width, k = parties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from flexray.core.messages import FloatArray, State
from flexray.data.base import BoolArray
from flexray.engine.parties.spec import STAND_IN, StandsIn

NEWEST = 0.1
"""The share of a message in the mean of those until then, as of batch normalization's running mean."""


class StandIn:
    """What stands in for embeddings of one party.

    Args:
        kind: ``zeros``; the ``mean`` of embeddings that arrived, those of the last messages above all; the ``last`` one
            that arrived; or a vector that is ``learned`` elsewhere, until when there are zeros.
        width: The party's embedding width.
        dtype: Type of its embeddings.
    """

    def __init__(self, kind: StandsIn, width: int, dtype: torch.dtype) -> None:
        self._kind = kind
        self._zeros_o: FloatArray = torch.zeros(width, dtype=dtype).numpy()
        self._vector_o: FloatArray | None = None

    def note(self, arrived_co: FloatArray) -> None:
        """Take note of what arrived of the samples of a message that the party has."""
        if self._kind == "last" and len(arrived_co):
            self._vector_o = np.array(arrived_co[-1])
        elif self._kind == "mean" and len(arrived_co):
            mean_o = arrived_co.mean(axis=0)
            before_o = mean_o if self._vector_o is None else self._vector_o
            self._vector_o = before_o + np.asarray(NEWEST, mean_o.dtype) * (mean_o - before_o)

    def completed(self, own_co: FloatArray, has_b: BoolArray) -> FloatArray:
        """Return a block [b, o] with the embeddings of the samples that the party has, and what stands in."""
        block_bo: FloatArray = np.empty((len(has_b), len(self._zeros_o)), self._zeros_o.dtype)
        block_bo[:] = self._zeros_o if self._vector_o is None else self._vector_o
        block_bo[has_b] = own_co
        return block_bo

    def save(self) -> State:
        """Return what it remembers, if anything."""
        return {} if self._vector_o is None else {STAND_IN: np.array(self._vector_o)}

    def load(self, state: State) -> None:
        """Load what :meth:`save` returned.

        Raises:
            ValueError: It is no vector of this width.
        """
        vector_o = state.get(STAND_IN)
        if vector_o is not None and (vector_o.shape != self._zeros_o.shape or vector_o.dtype != self._zeros_o.dtype):
            raise ValueError(f"{STAND_IN}: expected {len(self._zeros_o)} numbers, got shape {vector_o.shape}")
        self._vector_o = None if vector_o is None else np.array(vector_o)


def with_learned(embeddings_bo: Tensor, head: nn.Module, present_bk: Tensor | None, widths: Sequence[int]) -> Tensor:
    """Return all embeddings with the vector that the server's model has learned, if any, where one is missing."""
    vector_o = head._parameters.get(STAND_IN)
    if vector_o is None or present_bk is None:
        return embeddings_bo
    present_bo = present_bk.repeat_interleave(torch.tensor(widths, device=present_bk.device), dim=1)
    return torch.where(present_bo, embeddings_bo, vector_o)


@contextmanager
def running_statistics(model: nn.Module) -> Iterator[None]:
    """Let batch normalization use its running statistics meanwhile: one sample has none of its own."""
    training = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training]
    for module in training:
        module.eval()
    try:
        yield
    finally:
        for module in training:
            module.train()
