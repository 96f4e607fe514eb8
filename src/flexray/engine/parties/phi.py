"""Phi, what the server sends to every party in a round, and how a party predicts with it (paper, Section IV).

A party keeps the other parties' embeddings and the server's model fixed during its local iterations. If the server's
model begins with a linear layer, that layer is a sum over parties, and the share of the others is a constant of the
round: it is computed once for all parties of a process instead of once per party and iteration. The cost of a local
iteration then does not grow with the number of parties.

Shapes: b = samples of the batch, o_k = embedding width of party k, c = outputs of the (first layer of the) head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from flexray.core.messages import FloatArray
from flexray.engine.parties.devices import ON_CPU, Compute

Predictor = Callable[[Tensor], Tensor]
"""Maps a party's embedding [b, o_k] to the prediction of the whole model."""


class Fusion:
    """The process's own, frozen copy of the server's model, and what of it every party's prediction begins with.

    Args:
        head: The model; its parameters want no gradients and are changed in place only.
        widths: Embedding widths o_1 .. o_K.
    """

    def __init__(self, head: nn.Module, widths: Sequence[int]) -> None:
        ends = list(accumulate(widths))
        self.head = head
        self.spans = list(zip([0, *ends], ends, strict=False))
        self.first, self.rest = split_linear(head)
        self.weights_oc = [] if self.first is None else [self.first.weight[:, a:b].t() for a, b in self.spans]


class Phi:
    """The head with the server's parameters of this round, and the embeddings of all parties.

    Args:
        fusion: The head.
        blocks: The K embedding blocks [b, o_k] that were sent.
        compute: Where the process computes.
    """

    def __init__(self, fusion: Fusion, blocks: Sequence[FloatArray], compute: Compute = ON_CPU) -> None:
        self._fusion = fusion
        self._all = compute.tensor(np.concatenate(blocks, axis=1))
        self._sum_bc: Tensor | None = None

    def predictor(self, party: int) -> Predictor:
        """Return the prediction as a function of the embedding of ``party`` (0-based) alone."""
        start, end = self._fusion.spans[party]
        if self._fusion.first is not None:
            return self._folded(self._fusion.first, self._all[:, start:end], self._fusion.weights_oc[party])
        head, before, after = self._fusion.head, self._all[:, :start], self._all[:, end:]

        def predict(own_bo: Tensor) -> Tensor:
            prediction: Tensor = head(torch.cat((before, own_bo, after), dim=1))
            return prediction

        return predict

    def _folded(self, first: nn.Linear, sent_bo: Tensor, weight_oc: Tensor) -> Predictor:
        if self._sum_bc is None:
            self._sum_bc = functional.linear(self._all, first.weight, first.bias)
        others_bc = torch.addmm(self._sum_bc, sent_bo, weight_oc, alpha=-1)
        rest = self._fusion.rest
        if rest is None:
            return lambda own_bo: torch.addmm(others_bc, own_bo, weight_oc)
        return lambda own_bo: rest(torch.addmm(others_bc, own_bo, weight_oc))


def split_linear(head: nn.Module) -> tuple[nn.Linear | None, nn.Module | None]:
    """Return (first linear layer, the rest) of a head that begins with one; (None, None) of any other.

    Only a linear layer itself and a Sequential whose first entry is one qualify, without hooks or own ``forward``, and
    with a weight that is a parameter, not computed from others as by ``weight_norm``.
    """
    if _is_plain_linear(head):
        return head, None
    if isinstance(head, nn.Sequential) and _is_plain(head, nn.Sequential) and len(head):
        first = head[0]
        if _is_plain_linear(first):
            return first, nn.Sequential(*list(head)[1:]) if len(head) > 1 else None  # head[1:] would call a subclass
    return None, None


def _is_plain_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    has_own = {"weight", "bias"} <= module._parameters.keys()
    return has_own and isinstance(module, nn.Linear) and _is_plain(module, nn.Linear)


def _is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return type(module).forward is kind.forward and "forward" not in module.__dict__ and not any(hooks)
