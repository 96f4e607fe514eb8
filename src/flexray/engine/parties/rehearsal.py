"""Whether stacked parties compute the very bits that each computes alone, found out by doing both.

Kernels are chosen by shape, stride and alignment, never by values: what agrees in a rehearsal agrees in the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from flexray.core.messages import FloatArray, Order, Report
from flexray.data.batches import Batch
from flexray.engine.parties.kernels import layers_agree, remembered
from flexray.engine.parties.layers import layers_of
from flexray.engine.parties.learners import Learners, kind_of
from flexray.engine.parties.networks import LossGradient, Rows
from flexray.engine.parties.party import Party
from flexray.engine.parties.phi import Fusion, Phi
from flexray.engine.parties.spec import Shared
from flexray.engine.parties.stack import Stack
from flexray.engine.parties.trainer import Trainer
from flexray.optimizers import LocalSGD, Step

SAMPLE = 4
"""Parties of a stack that are also run one by one: the first and the last ones."""
RATE = 0.01
DRAWS = 3
"""So often the server's model is tried on made-up embeddings."""
STEPS = 3
"""So many parties of a stack drop out one after another: what computes one network alone may be another kernel."""


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
    kinds: dict[Hashable, list[Party]] = {}
    for party in parties:
        kind = kind_of(party.model, party.trainer) if party.computes_plainly else None
        if kind is not None:
            kinds.setdefault(kind, []).append(party)
    found = {kind: Stack(alike, rest) for kind, alike in kinds.items()}
    if shared.stack == "always":
        return list(found.values())
    common = (tuple(widths), repr(fusion and fusion.head), *_settings(shared))
    return [
        stack
        for kind, stack in found.items()
        if remembered((kind, tuple(stack.numbers), common), partial(agrees, stack, fusion, widths, labels_n, shared))
    ]


def _settings(shared: Shared) -> tuple[Hashable, ...]:
    """Return all but kinds and widths that decide which kernels compute."""
    return shared.outline.task, frozenset(shared.batches().sizes), shared.dtype, shared.threads


def agrees(stack: Stack, fusion: Fusion | None, widths: Sequence[int], labels_n: Tensor, shared: Shared) -> bool:
    """Run a stack and its parties alone; put all parameters back, and forget what was sent.

    Args:
        stack: The stack.
        fusion: The head; None where the labels are at the server.
        widths: Embedding widths of all parties.
        labels_n: Labels of the training samples, if they are known here.
        shared: What all participants know.
    """
    if not _kernels_agree(stack, fusion, shared):
        return False
    start_mp = stack.learners.rows.values_mp.clone()
    sample = sorted({*range(len(stack.parties))[: SAMPLE // 2], *range(len(stack.parties))[-SAMPLE // 2 :]})
    try:
        return all(
            _agrees(stack, sample, size, taus, _descent(fusion, widths, labels_n[:size], size, shared))
            for size in shared.batches().sizes
            for taus in _iterations(len(stack.parties))
        )
    finally:
        stack.learners.rows.values_mp.copy_(start_mp)
        for party in stack.parties:
            party.stand_in.load({})  # nothing has arrived yet


def _kernels_agree(stack: Stack, fusion: Fusion | None, shared: Shared) -> bool:
    party, many, dtype = stack.parties[0], len(stack.parties), shared.torch_dtype
    shape = party.take(Batch(np.arange(1), 0)).shape[1:]
    for size in shared.batches().sizes:
        if not layers_agree(layers_of(party.model) or [], shape, size, many, dtype):
            return False
        first = None if fusion is None else fusion.first
        if first is None:
            continue
        share = nn.Linear(party.width, first.out_features, dtype=dtype)  # of the first layer, one party's
        if not layers_agree([share, *stack.rest], (party.width,), size, many, dtype):
            return False
    return True


def _iterations(many: int) -> list[list[int]]:
    """Return local iterations of the parties to try: equal ones; rising and falling ones."""
    rising = [max(1, STEPS + 1 - many + k) for k in range(many)]
    return [[2] * many, rising, rising[::-1]] if many > 1 else [[2]]


Descend = Callable[[Stack | Party, Mapping[int, Order]], Mapping[int, Report]]


def _descent(fusion: Fusion | None, widths: Sequence[int], labels_b: Tensor, size: int, shared: Shared) -> Descend:
    """Return a function that trains a stack, or a party alone, on made-up messages."""
    draw = torch.Generator().manual_seed(0)
    blocks = [torch.randn(size, width, generator=draw, dtype=shared.torch_dtype).numpy() for width in widths]
    if fusion is None:
        return lambda one, orders: _follow(one, dict(enumerate(blocks)), orders)
    phi = Phi(fusion, blocks)
    return lambda one, orders: _train(one, phi, labels_b, orders)


def _train(one: Stack | Party, phi: Phi, labels_b: Tensor, orders: Mapping[int, Order]) -> Mapping[int, Report]:
    if isinstance(one, Stack):
        return one.train(phi, labels_b, orders)
    return {one.index - 1: one.train(phi, labels_b, orders[one.index - 1], 0)}


def _follow(one: Stack | Party, grads: Mapping[int, FloatArray], orders: Mapping[int, Order]) -> Mapping[int, Report]:
    if isinstance(one, Stack):
        return one.follow(grads, orders)
    return {one.index - 1: one.follow(grads[one.index - 1], orders[one.index - 1], 0, "round")}


def _agrees(stack: Stack, sample: Sequence[int], size: int, taus: Sequence[int], descend: Descend) -> bool:
    """Compare embeddings, gradients and parameters of a round at different learning rates."""
    batch, rows_mp = Batch(np.arange(size), 0), stack.learners.rows.values_mp
    start_mp = rows_mp.clone()
    rates = [RATE if len(set(taus)) == 1 else RATE * (1 + k % 3) for k in range(len(taus))]
    orders = {number: Order(tau, lr) for number, tau, lr in zip(stack.numbers, taus, rates, strict=True)}
    sent = stack.embed(batch, 0)
    with recorded(stack.parties[0].trainer) as steps:
        descend(stack, orders)
    stacked_mp = rows_mp.clone()
    rows_mp.copy_(start_mp)
    rows = sorted(range(len(taus)), key=lambda k: -taus[k])
    for k in sample:
        party = stack.parties[k]
        own = party.embed(batch, 0)
        with recorded(party.trainer) as alone:
            descend(party, orders)
        there = [
            [part[rows.index(k)] for part in stack.learners.rows.views(grads_mp)] for (grads_mp,) in steps[: taus[k]]
        ]
        same = own.tobytes() == sent[party.index - 1].tobytes() and _bytes([rows_mp[k]]) == _bytes([stacked_mp[k]])
        if not same or list(map(_bytes, there)) != list(map(_bytes, alone)):
            return False
    rows_mp.copy_(stacked_mp)
    return True


class Recorder(LocalSGD):
    """An optimizer that also notes the gradients of every step.

    Args:
        inner: The optimizer.
    """

    def __init__(self, inner: LocalSGD) -> None:
        super().__init__(inner.momentum, inner.proximal, inner.local_rates or None, inner.l2)
        self.seen: list[list[Tensor]] = []

    @override
    def begin(self, params: Sequence[Tensor], lr: float) -> Step:
        return self._noting(super().begin(params, lr))

    @override
    def begin_rows(self, rows_mp: Tensor, lr_m: Sequence[float]) -> Callable[[Tensor], None]:
        step = super().begin_rows(rows_mp, lr_m)
        noting = self._noting(lambda grads: step(grads[0]))
        return lambda grads_mp: noting([grads_mp])

    def _noting(self, step: Step) -> Step:
        def noting(grads: Sequence[Tensor]) -> None:
            self.seen.append([grad.clone() for grad in grads])
            step(grads)

        return noting


@contextmanager
def recorded(trainer: Trainer) -> Iterator[list[list[Tensor]]]:
    """Note the gradients of every step that is taken meanwhile."""
    inner = cast(LocalSGD, trainer.optimizer)
    trainer.optimizer = recorder = Recorder(inner)
    try:
        yield recorder.seen
    finally:
        trainer.optimizer = inner


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
    kind = None if shared.stack == "off" else kind_of(head, trainer)
    if kind is None:
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
        for _ in range(DRAWS)
    ]
    if shared.stack == "always":
        return train

    def agrees() -> bool:
        kernels = (layers_agree(layers_of(head) or [], (inputs,), len(x), 1, shared.torch_dtype) for x, _ in made)
        return all(kernels) and _trains_alike(train, head, trainer, learners.rows, made)

    return train if remembered((kind, inputs, _settings(shared)), agrees) else None


def _trains_alike(train: Train, head: nn.Module, trainer: Trainer, rows: Rows, inputs: Made) -> bool:
    """Compare losses, gradients and parameters of a few local iterations; put the parameters back."""

    def by_autograd(x: Tensor, labels_b: Tensor, order: Order) -> Report:
        return trainer.run(trainer.down(lambda: head(x), labels_b), order)

    start_mp, order = rows.values_mp.clone(), Order(3, RATE)
    for x, labels_b in inputs:
        with recorded(trainer) as one:
            stacked = (train(x, labels_b, order).loss, _bytes([rows.values_mp]))
        rows.values_mp.copy_(start_mp)
        with recorded(trainer) as other:
            alone = (by_autograd(x, labels_b, order).loss, _bytes([rows.values_mp]))
        rows.values_mp.copy_(start_mp)
        gradients = [[part[0] for part in rows.views(grads_mp)] for (grads_mp,) in one]
        if stacked != alone or list(map(_bytes, gradients)) != list(map(_bytes, other)):
            return False
    return True


def _bytes(values: Sequence[Tensor]) -> list[bytes]:
    return [value.contiguous().numpy().tobytes() for value in values]
