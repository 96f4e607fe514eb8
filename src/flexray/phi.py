"""Phi, what the server sends to every party in a round, and how a party predicts with it (SPEC 2).

A party keeps the other parties' embeddings and the server's model fixed during its local iterations. If the server's
model begins with a linear layer, that layer is a sum over parties, and the share of the others is a constant of the
round: it is computed once for all parties of a process instead of once per party and iteration. The cost of a local
iteration then does not grow with the number of parties.

Shapes: b = samples of the batch, o_k = embedding width of party k, c = outputs of the (first layer of the) head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from flexray.devices import ON_CPU, Compute
from flexray.messages import FloatArray

Predictor = Callable[[Tensor], Tensor]
"""Maps a party's embedding [b, o_k] to the prediction of the whole model."""


class Phi:
    """The head with the server's parameters of this round, and the embeddings of all parties.

    Args:
        head: The process's own, frozen copy of the server's model.
        blocks: The K embedding blocks [b, o_k] that were sent.
        compute: Where the process computes.
    """

    def __init__(self, head: nn.Module, blocks: Sequence[FloatArray], compute: Compute = ON_CPU) -> None:
        self._head = head
        self._all = compute.tensor(np.concatenate(blocks, axis=1))
        ends = list(accumulate(block.shape[1] for block in blocks))
        self._spans = list(zip([0, *ends], ends, strict=False))
        self._first, self._rest = split_linear(head)
        self._sum_bc: Tensor | None = None

    def predictor(self, party: int) -> Predictor:
        """Return the prediction as a function of the embedding of ``party`` (0-based) alone."""
        start, end = self._spans[party]
        if self._first is None:
            before, after = self._all[:, :start], self._all[:, end:]
            return lambda own_bo: self._predict(torch.cat((before, own_bo, after), dim=1))
        return self._folded(self._first, start, end)

    def _folded(self, first: nn.Linear, start: int, end: int) -> Predictor:
        with torch.no_grad():
            if self._sum_bc is None:
                self._sum_bc = functional.linear(self._all, first.weight, first.bias)
            weight_oc = first.weight[:, start:end].t()
            others_bc = torch.addmm(self._sum_bc, self._all[:, start:end], weight_oc, alpha=-1)
        rest = self._rest
        if rest is None:
            return lambda own_bo: torch.addmm(others_bc, own_bo, weight_oc)
        return lambda own_bo: rest(torch.addmm(others_bc, own_bo, weight_oc))

    def _predict(self, embeddings_bo: Tensor) -> Tensor:
        prediction: Tensor = self._head(embeddings_bo)
        return prediction


def split_linear(head: nn.Module) -> tuple[nn.Linear | None, nn.Module | None]:
    """Return (first linear layer, the rest) of a head that begins with one; (None, None) of any other.

    Only a linear layer itself and a Sequential whose first entry is one qualify, without hooks or own ``forward``.
    """
    if isinstance(head, nn.Linear) and _is_plain(head, nn.Linear):
        return head, None
    if isinstance(head, nn.Sequential) and _is_plain(head, nn.Sequential) and len(head):
        first = head[0]
        if isinstance(first, nn.Linear) and _is_plain(first, nn.Linear):
            return first, nn.Sequential(*list(head)[1:]) if len(head) > 1 else None  # head[1:] would call a subclass
    return None, None


def _is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return type(module).forward is kind.forward and "forward" not in module.__dict__ and not any(hooks)
