"""Algorithms of other papers as plain PyTorch loops, each from its own paper; nothing of flexray is used.

Every loop takes models that it trains in place, the parties first, then the server; plain SGD; and IDs of every batch.
It returns the loss of each batch before its step.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Compress = Callable[[Tensor], Tensor]


@dataclass
class Split:
    """A model that is split over parties and a server."""

    parties: Sequence[nn.Module]
    server: nn.Module
    features: Sequence[Tensor]
    labels: Tensor
    lr: Sequence[float]

    def embed(self, ids: Tensor | slice) -> list[Tensor]:
        return [model(x[ids]) for model, x in zip(self.parties, self.features, strict=True)]

    def loss(self, blocks: Sequence[Tensor], ids: Tensor) -> Tensor:
        return cross_entropy(self.server(torch.cat(list(blocks), 1)), self.labels[ids])


def descend(model: nn.Module, lr: float, steps: int, objective: Callable[[], Tensor]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr)
    for _ in range(steps):
        optimizer.zero_grad()
        objective().backward(inputs=list(model.parameters()))
        optimizer.step()


def split_learning(model: Split, batches: Sequence[Tensor]) -> list[float]:
    """One network, trained in one place by one backward pass."""
    models = [*model.parties, model.server]
    optimizer = torch.optim.SGD([{"params": m.parameters(), "lr": lr} for m, lr in zip(models, model.lr, strict=True)])
    losses = []
    for ids in batches:
        optimizer.zero_grad()
        loss = model.loss(model.embed(ids), ids)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def fedbcd(model: Split, batches: Sequence[Tensor], local: int) -> list[float]:
    """FedBCD-p: what parties exchange stays the same for all local updates."""
    return [fedbcd_round(model, ids, local) for ids in batches]


def fedbcd_round(model: Split, ids: Tensor, local: int) -> float:
    start = [block.detach().requires_grad_() for block in model.embed(ids)]
    loss = model.loss(start, ids)
    received = torch.autograd.grad(loss, start)
    for party, x, grad, lr in zip(model.parties, model.features, received, model.lr, strict=False):
        descend(party, lr, local, lambda party=party, x=x, grad=grad: (party(x[ids]) * grad).sum())
    descend(model.server, model.lr[-1], local, lambda: model.loss([block.detach() for block in start], ids))
    return loss.item()


def local_updates(model: Split, ids: Tensor, known: Sequence[Tensor], local: int) -> float:
    """Everybody descends from what everybody knows of all embeddings, a party with its own ones new and exact."""
    loss = model.loss(known, ids).item()

    def of_party(k: int) -> Tensor:
        own = model.parties[k](model.features[k][ids])
        return model.loss([*known[:k], own, *known[k + 1 :]], ids)

    for k, party in enumerate(model.parties):
        descend(party, model.lr[k], local, lambda k=k: of_party(k))
    descend(model.server, model.lr[-1], local, lambda: model.loss(known, ids))
    return loss


def cvfl(model: Split, batches: Sequence[Tensor], local: int, compress: Compress) -> list[float]:
    losses = []
    for ids in batches:
        with torch.no_grad():
            known = [compress(block) for block in model.embed(ids)]
        losses.append(local_updates(model, ids, known, local))
    return losses


def efvfl(model: Split, batches: Sequence[Tensor], local: int, compress: Compress) -> list[float]:
    losses = []
    with torch.no_grad():
        surrogates = [compress(block) for block in model.embed(slice(None))]
    for ids in batches:
        with torch.no_grad():
            for surrogate, block in zip(surrogates, model.embed(ids), strict=True):
                surrogate[ids] += compress(block - surrogate[ids])
        losses.append(local_updates(model, ids, [surrogate[ids] for surrogate in surrogates], local))
    return losses


def fedonce(
    model: Split, batches: Sequence[Tensor], local: int, apart: int, targets: Sequence[Tensor], guest: int | None = None
) -> list[float]:
    """FedOnce: all but the guest learn apart, towards targets; one handover; then the server learns, and the guest."""
    losses = []
    for ids in batches[:apart]:
        with torch.no_grad():
            losses.append(model.loss(model.embed(ids), ids).item())
        for k, party in enumerate(model.parties):
            if k != guest:
                own = partial(towards, party, model.features[k][ids], targets[k], ids)
                descend(party, model.lr[k], local, own)
    with torch.no_grad():
        sent = model.embed(slice(None))
    return losses + [fedonce_round(model, ids, local, sent, guest) for ids in batches[apart:]]


def towards(party: nn.Module, x: Tensor, targets: Tensor, ids: Tensor) -> Tensor:
    block = party(x)
    costs = torch.cdist(block.detach(), targets[ids]).square()
    targets[ids] = targets[ids][linear_sum_assignment(costs)[1]]
    return (block - targets[ids]).square().sum(1).mean()


def fedonce_round(model: Split, ids: Tensor, local: int, sent: Sequence[Tensor], guest: int | None) -> float:
    known = [block[ids] for block in sent]
    if guest is not None:
        party, x = model.parties[guest], model.features[guest][ids]
        known[guest] = party(x).detach().requires_grad_()
    loss = model.loss(known, ids)
    if guest is not None:
        (grad,) = torch.autograd.grad(loss, [known[guest]])
        descend(party, model.lr[guest], local, lambda: (party(x) * grad).sum())
    descend(model.server, model.lr[-1], local, lambda: model.loss([block.detach() for block in known], ids))
    return loss.item()


@dataclass
class Lasso:
    """Steps of proximal SGD, with a rate and a penalty of their own."""

    steps: int
    lr: float
    penalty: float


def less(
    model: Split, batches: Sequence[Tensor], local: int, pretrain: int, components: Lasso, features: Lasso
) -> list[float]:
    """LESS-VFL: training; one handover; the server's lasso; the parties' lassos; training of what is left."""
    rest = iter(batches)
    losses = [fedbcd_round(model, next(rest), local) for _ in range(pretrain)]
    losses.append(loss_of(model, next(rest)))
    with torch.no_grad():
        sent = model.embed(slice(None))
    for _ in range(components.steps):
        ids = next(rest)
        known = [block[ids] for block in sent]
        losses.append(model.loss(known, ids).item())
        shrink(model.server, components, local, lambda known=known, ids=ids: model.loss(known, ids))
    kept = (first_weight(model.server) != 0).any(0).split([block.shape[1] for block in sent])
    for party, left in zip(model.parties, kept, strict=True):
        if isinstance(party, nn.Linear):
            first_weight(party).data[~left] = 0
    for _ in range(features.steps):
        ids = next(rest)
        losses.append(loss_of(model, ids))
        for party, x, block, left in zip(model.parties, model.features, sent, kept, strict=True):
            own = partial(changed, party, x[ids], block[ids], left)
            shrink(party, features, local, own)
    for net in (*model.parties, model.server):
        first_weight(net).register_hook(partial(torch.mul, (first_weight(net) != 0).any(0)))
    return losses + [fedbcd_round(model, ids, local) for ids in rest]


def loss_of(model: Split, ids: Tensor) -> float:
    with torch.no_grad():
        return model.loss(model.embed(ids), ids).item()


def first_weight(net: nn.Module) -> nn.Parameter:
    return next(iter(net.parameters()))


def changed(party: nn.Module, x: Tensor, before: Tensor, left: Tensor) -> Tensor:
    return torch.nn.functional.mse_loss(party(x)[:, left], before[:, left])


def shrink(net: nn.Module, lasso: Lasso, local: int, objective: Callable[[], Tensor]) -> None:
    """Steps of SGD, each followed by a threshold: a column that is shorter is zero, another that much shorter."""
    threshold = lasso.lr * lasso.penalty
    for _ in range(local):
        descend(net, lasso.lr, 1, objective)
        with torch.no_grad():
            for column in first_weight(net).T:
                length = column.norm()
                column.copy_(torch.zeros_like(column) if length <= threshold else column - threshold * column / length)


def tdcd(model: Split, batches: Sequence[Tensor], local: int, clients: Tensor) -> list[float]:
    """TDCD: within a party, clients with samples of their own start alike, and are averaged; others send once."""
    losses = []
    for ids in batches:
        with torch.no_grad():
            sent = model.embed(ids)
        losses.append(model.loss(sent, ids).item())
        for k, party in enumerate(model.parties):
            nets = [copy.deepcopy(party) for _ in range(int(clients.max()) + 1)]
            for client, net in enumerate(nets):
                if (mine := clients[ids] == client).any():
                    descend(net, model.lr[k], local, partial(of_client, model, net, k, sent, ids, mine))
            with torch.no_grad():
                for param, *own in zip(*(net.parameters() for net in (party, *nets)), strict=True):
                    param.copy_(torch.stack(own).mean(0))
        descend(model.server, model.lr[-1], local, partial(model.loss, sent, ids))
    return losses


def of_client(model: Split, net: nn.Module, k: int, sent: Sequence[Tensor], ids: Tensor, mine: Tensor) -> Tensor:
    blocks = [block[mine] for block in sent]
    blocks[k] = net(model.features[k][ids[mine]])
    return model.loss(blocks, ids[mine])


def top_k(share: float) -> Compress:
    """Of every row the values of largest magnitude."""

    def compress(block: Tensor) -> Tensor:
        kept = torch.zeros_like(block)
        for row, out in zip(block, kept, strict=True):
            places = row.abs().topk(math.ceil(share * len(row))).indices
            out[places] = row[places]
        return kept

    return compress


def quantized(bits: int, share: float) -> Compress:
    """Top-k, and what is left on equal levels between its extremes."""

    def compress(block: Tensor) -> Tensor:
        kept = top_k(share)(block)
        values = kept[kept != 0]
        grid = torch.linspace(values.min().item(), values.max().item(), 2**bits, dtype=block.dtype)
        nearest = grid[(values.unsqueeze(1) - grid).abs().argmin(1)]
        return kept.masked_scatter(kept != 0, nearest)

    return compress
