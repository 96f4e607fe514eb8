"""Phi, what the server sends to every party in a round, and how a party predicts with it (paper, Section IV).

A party keeps the other parties' embeddings and the server's model fixed during its local iterations. If the server's
model begins with a linear layer, that layer is a sum over parties, and the share of the others is a constant of the
round: it is computed once for all parties of a process instead of once per party and iteration. The cost of a local
iteration then does not grow with the number of parties.

Shapes: b = samples of the batch, o_k = embedding width of party k, c = outputs of the (first layer of the) head.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from flexray.core.messages import FloatArray
from flexray.data.base import BoolArray
from flexray.engine.parties.devices import ON_CPU, Compute
from flexray.engine.parties.missing import with_learned

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
        present_bk: Which of the samples each party has; None: each has all.
    """

    def __init__(
        self,
        fusion: Fusion,
        blocks: Sequence[FloatArray],
        compute: Compute = ON_CPU,
        present_bk: BoolArray | None = None,
    ) -> None:
        self._fusion = fusion
        present = None if present_bk is None else compute.put(torch.from_numpy(present_bk))
        self._all = with_learned(
            compute.tensor(np.concatenate(blocks, axis=1)), fusion.head, present, [b - a for a, b in fusion.spans]
        )
        self._sum_bc: Tensor | None = None

    def of(self, rows_b: Tensor) -> Phi:
        """Return the same for some samples of the batch, by their places."""
        part = copy.copy(self)
        part._all, part._sum_bc = self._all.index_select(0, rows_b), None
        return part

    def block(self, party: int) -> Tensor:
        """Return the embeddings [b, o_k] of ``party`` (0-based) as everybody got them."""
        start, end = self._fusion.spans[party]
        return self._all[:, start:end]

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
        others_bc = torch.addmm(self._sum_of(first), sent_bo, weight_oc, alpha=-1)
        rest = self._fusion.rest
        if rest is None:
            return lambda own_bo: torch.addmm(others_bc, own_bo, weight_oc)
        return lambda own_bo: rest(torch.addmm(others_bc, own_bo, weight_oc))

    def _sum_of(self, first: nn.Linear) -> Tensor:
        if self._sum_bc is None:
            self._sum_bc = functional.linear(self._all, first.weight, first.bias)
        return self._sum_bc

    def stacked(self, parties: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return what the first layer makes of all but each party's embedding [m, b, c], and its weights [m, c, o].

        Args:
            parties: Parties (0-based) of equal width; the head begins with a linear layer.
        """
        first = self._fusion.first
        if first is None:
            raise ValueError("the head does not begin with a linear layer")
        spans = [self._fusion.spans[party] for party in parties]
        sent_mbo, weight_mco = _cut(self._all, spans), _cut(first.weight, spans)
        sum_bc = self._sum_of(first)
        sum_mbc = sum_bc.expand(len(parties), *sum_bc.shape)
        return add_products(sum_mbc, sent_mbo, weight_mco.transpose(1, 2), alpha=-1), weight_mco


def add_products(added_mbo: Tensor, x_mbi: Tensor, weight_mio: Tensor, alpha: float = 1) -> Tensor:
    """Return ``added + alpha x weight`` of m networks, with the bits of ``torch.addmm`` for each."""
    if weight_mio.shape[2] == 1:  # alone, torch takes such a product for one with a vector
        each = zip(added_mbo, x_mbi, weight_mio, strict=True)
        return torch.stack([torch.addmm(added, x, weight, alpha=alpha) for added, x, weight in each])
    return torch.baddbmm(added_mbo, x_mbi, weight_mio, alpha=alpha)


def _cut(wide: Tensor, spans: Sequence[tuple[int, int]]) -> Tensor:
    """Return columns of [n, wide] as [m, n, o]: without a copy where the m spans follow each other."""
    (start, end), width = (spans[0][0], spans[-1][1]), spans[0][1] - spans[0][0]
    if all(span == (start + k * width, start + (k + 1) * width) for k, span in enumerate(spans)):
        return wide[:, start:end].view(len(wide), len(spans), width).transpose(0, 1)
    return torch.stack([wide[:, a:b] for a, b in spans])


def as_one_vector(params: Sequence[Tensor]) -> Tensor:
    """Let parameters be views of one vector [v], so that one copy sets them all, and return it."""
    vector = torch.cat([param.detach().reshape(-1) for param in params]) if params else torch.empty(0)
    for param, values in zip(params, torch.split(vector, [param.numel() for param in params]), strict=True):
        param.data = values.view_as(param)
    return vector


def split_linear(head: nn.Module) -> tuple[nn.Linear | None, nn.Module | None]:
    """Return (first linear layer, the rest) of a head that begins with one; (None, None) of any other.

    Only a linear layer itself and a Sequential whose first entry is one qualify, without hooks or own ``forward``, and
    with a weight that is a parameter, not computed from others as by ``weight_norm``.
    """
    if _is_plain_linear(head):
        return head, None
    if isinstance(head, nn.Sequential) and is_plain(head, nn.Sequential) and len(head):
        first = head[0]
        if _is_plain_linear(first):
            return first, nn.Sequential(*list(head)[1:]) if len(head) > 1 else None  # head[1:] would call a subclass
    return None, None


def _is_plain_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    has_own = {"weight", "bias"} <= module._parameters.keys()
    return has_own and isinstance(module, nn.Linear) and is_plain(module, nn.Linear)


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module's forward pass is that of ``kind``, without hooks."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return type(module).forward is kind.forward and "forward" not in module.__dict__ and not any(hooks)
