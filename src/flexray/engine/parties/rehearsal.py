"""Whether stacked parties compute the very bits that each computes alone, found out by doing both.

Kernels are chosen by shape, stride and alignment, never by values: what agrees in a rehearsal agrees in the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flexray.core.messages import FloatArray, Order, Report
from flexray.data.batches import Batch
from flexray.engine.parties.layers import LossGradient, layers_of
from flexray.engine.parties.learners import Learners, kind_of
from flexray.engine.parties.party import Party
from flexray.engine.parties.phi import Fusion, Phi
from flexray.engine.parties.spec import Shared
from flexray.engine.parties.stack import Stack
from flexray.engine.parties.trainer import Trainer

SAMPLE = 6
"""Parties of a stack that are also run one by one: the first and the last ones."""
ORDERS = ((2, 2), (3, 1), (1, 3, 2))
"""Local iterations of the parties in turn: equal ones, and some that drop out, in and out of order."""


def stacks(
    parties: Sequence[Party], fusion: Fusion | None, widths: Sequence[int], labels_n: Tensor, shared: Shared
) -> list[Stack]:
    """Return the stacks of those parties of a process that can share operations, as the run wishes.

    Args:
        parties: The parties.
        fusion: The head; None where the labels are at the server.
        widths: Embedding widths of all parties.
        labels_n: Labels of the training samples, if they are known here.
        shared: What all participants know.
    """
    rest = [] if fusion is None or fusion.rest is None else layers_of(fusion.rest)
    if shared.stack == "off" or rest is None or (fusion is not None and fusion.first is None):
        return []
    kinds: dict[Any, list[Party]] = {}
    for party in parties:
        kind = kind_of(party.model, party.trainer) if party.computes_plainly else None
        if kind is not None:
            kinds.setdefault(kind, []).append(party)
    found = [Stack(alike, rest) for alike in kinds.values()]
    return [stack for stack in found if shared.stack == "always" or agrees(stack, fusion, widths, labels_n, shared)]


def agrees(stack: Stack, fusion: Fusion | None, widths: Sequence[int], labels_n: Tensor, shared: Shared) -> bool:
    """Run a stack and its parties alone; put all parameters back.

    Args:
        stack: The stack.
        fusion: The head; None where the labels are at the server.
        widths: Embedding widths of all parties.
        labels_n: Labels of the training samples, if they are known here.
        shared: What all participants know.
    """
    start_mp = stack.learners.rows.values_mp.clone()
    sample = sorted({*range(len(stack.parties))[: SAMPLE // 2], *range(len(stack.parties))[-SAMPLE // 2 :]})
    try:
        return all(
            _agrees(stack, sample, size, orders, _descent(fusion, widths, labels_n[:size], size, shared))
            for size in shared.batches().sizes
            for orders in (ORDERS if len(stack.parties) > 1 else ORDERS[:1])
        )
    finally:
        stack.learners.rows.values_mp.copy_(start_mp)


Descend = Callable[[Stack | Party, Mapping[int, Order]], Mapping[int, Report]]


def _descent(fusion: Fusion | None, widths: Sequence[int], labels_b: Tensor, size: int, shared: Shared) -> Descend:
    """Return a function that trains a stack, or a party alone, on made-up messages."""
    draw = torch.Generator().manual_seed(0)
    blocks = [torch.randn(size, width, generator=draw, dtype=shared.torch_dtype).numpy() for width in widths]
    if fusion is None:
        return lambda one, orders: _follow(one, blocks, orders)
    phi = Phi(fusion, blocks)
    return lambda one, orders: _train(one, phi, labels_b, orders)


def _train(one: Stack | Party, phi: Phi, labels_b: Tensor, orders: Mapping[int, Order]) -> Mapping[int, Report]:
    if isinstance(one, Stack):
        return one.train(phi, labels_b, orders)
    return {one.index - 1: one.train(phi, labels_b, orders[one.index - 1], 0)}


def _follow(one: Stack | Party, grads: Sequence[FloatArray], orders: Mapping[int, Order]) -> Mapping[int, Report]:
    if isinstance(one, Stack):
        return one.follow(grads, orders)
    return {one.index - 1: one.follow(grads[one.index - 1], orders[one.index - 1], 0, "round")}


def _agrees(stack: Stack, sample: Sequence[int], size: int, taus: Sequence[int], descend: Descend) -> bool:
    """Compare what is sent, and the parameters after two rounds at different learning rates."""
    batch, rows_mp = Batch(np.arange(size), 0), stack.learners.rows.values_mp
    start_mp = rows_mp.clone()
    orders = {number: Order(taus[k % len(taus)], 0.01 * (1 + k % len(taus))) for k, number in enumerate(stack.numbers)}
    sent = stack.embed(batch, 0)
    descend(stack, orders)
    stacked_mp = rows_mp.clone()
    rows_mp.copy_(start_mp)
    for k in sample:
        party = stack.parties[k]
        own = party.embed(batch, 0)
        descend(party, orders)
        if own.tobytes() != sent[party.index - 1].tobytes() or _bytes(rows_mp[k]) != _bytes(stacked_mp[k]):
            return False
    rows_mp.copy_(stacked_mp)
    return True


Made = Sequence[tuple[Tensor, Tensor]]
"""Embeddings [b, o] and labels [b], made up."""
Train = Callable[[Tensor, Tensor, Order], Report]
"""Takes the local iterations of a round on embeddings [b, o] and labels [b]."""


def lone_learner(head: nn.Module, trainer: Trainer, inputs: int, labels_n: Tensor, shared: Shared) -> Train | None:
    """Return how the server trains without autograd, if it can, as the run wishes.

    Args:
        head: Its model.
        trainer: Trains it by autograd.
        inputs: Width of all embeddings together.
        labels_n: Labels of the training samples.
        shared: What all participants know.
    """
    if shared.stack == "off" or kind_of(head, trainer) is None:
        return None
    learners, task = Learners([head], [trainer]), trainer.task

    def train(embeddings_bo: Tensor, labels_b: Tensor, order: Order) -> Report:
        values = learners.forward(embeddings_bo.unsqueeze(0))
        loss = float(task.loss_fn(values[-1][0], labels_b))
        report = learners.run(values, lambda busy: LossGradient(task, labels_b, len(busy)), {0: order})[0]
        finite = report.diverged_at if order.tau or math.isfinite(loss) else 0
        return report._replace(loss=loss, diverged_at=finite)

    draw = torch.Generator().manual_seed(0)
    made = [
        (torch.randn(size, inputs, generator=draw, dtype=shared.torch_dtype), labels_n[:size])
        for size in shared.batches().sizes
    ]
    agrees = shared.stack == "always" or _trains_alike(train, head, trainer, learners.rows.values_mp, made)
    return train if agrees else None


def _trains_alike(train: Train, head: nn.Module, trainer: Trainer, rows_mp: Tensor, inputs: Made) -> bool:
    """Compare losses and parameters of a few local iterations; put the parameters back."""

    def by_autograd(x: Tensor, labels_b: Tensor, order: Order) -> Report:
        return trainer.run(trainer.down(lambda: head(x), labels_b), order)

    start_mp, order = rows_mp.clone(), Order(3, 0.01)
    for x, labels_b in inputs:
        found = []
        for how in (train, by_autograd):
            found.append((how(x, labels_b, order).loss, _bytes(rows_mp)))
            rows_mp.copy_(start_mp)
        if found[0] != found[1]:
            return False
    return True


def _bytes(values: Tensor) -> bytes:
    return values.numpy().tobytes()
