"""Local iterations of several participants at once, on networks whose gradients are written out.

Shapes: m = participants, b = samples of a batch, o = outputs of their models, p = parameters of one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from flexray.core.messages import Order, Report
from flexray.engine.parties.layers import layers_of
from flexray.engine.parties.networks import Networks, Rows
from flexray.engine.parties.trainer import Trainer
from flexray.optimizers import LocalSGD

Descent = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Maps outputs [m, b, o] to the loss's gradient with respect to them, and to numbers [m, ...] that are finite unless a
participant diverged."""


class Learners:
    """Participants with equal models and optimizers, each operation shared.

    Args:
        models: Their models, all of one :func:`kind_of`.
        trainers: Those of the loop that does the same, one participant after another.
    """

    def __init__(self, models: Sequence[nn.Module], trainers: Sequence[Trainer]) -> None:
        self._trainers = trainers
        self._layers = layers_of(models[0]) or []
        self.rows = Rows([list(model.parameters()) for model in models])
        self._grads_mp = torch.zeros_like(self.rows.values_mp)
        self._all = self._bind(self.rows.values_mp)

    def _bind(self, rows_mp: Tensor) -> Networks:
        grads = self.rows.views(self._grads_mp[: len(rows_mp)])
        return Networks(self._layers, self.rows.views(rows_mp), grads)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return inputs [m, b, ...] and what every layer makes of them."""
        with torch.no_grad():
            return self._all.forward(x)

    def forward_of(self, start: int, x_mb: Tensor) -> Tensor:
        """Return the outputs for inputs [m, b, ...] of the m participants from place ``start`` on."""
        rows_mp = self.rows.values_mp[start : start + len(x_mb)]
        with torch.no_grad():
            return Networks(self._layers, self.rows.views(rows_mp)).forward(x_mb)[-1]

    def run(
        self, values: Sequence[Tensor], descent: Callable[[Sequence[int]], Descent], orders: Mapping[int, Order]
    ) -> dict[int, Report]:
        """Take local iterations on one batch; return everybody's report, without the loss.

        Args:
            values: From :meth:`forward`, of all participants.
            descent: Makes the descent of those that iterate, given their places.
            orders: Those of the participants that take part, by place.
        """
        busy = sorted((k for k, order in orders.items() if order.tau), key=lambda k: -orders[k].tau)
        losses: list[Tensor] = []
        if busy:
            with torch.no_grad():
                losses = self._iterate(values, descent(busy), busy, [orders[k] for k in busy])
        diverged, weight = dict(_diverged(losses, busy)), self._trainers[0].optimizer.max_weight
        weights = {(tau, lr): weight(tau, lr) for tau, lr, _ in set(orders.values())}
        return {
            k: Report(order.tau, weights[order.tau, order.lr], None, diverged.get(k)) for k, order in orders.items()
        }

    def _iterate(
        self, values: Sequence[Tensor], descend: Descent, busy: Sequence[int], orders: Sequence[Order]
    ) -> list[Tensor]:
        """Run the iterations of participants ``busy``, those with most first; return the losses of each iteration."""
        rows_mp, net = self.rows.values_mp, self._all
        moved = list(busy) != list(range(len(rows_mp)))
        if moved:
            where = torch.tensor(busy)
            rows_mp, values = rows_mp.index_select(0, where), [value.index_select(0, where) for value in values]
            net = self._bind(rows_mp)
        step = cast(LocalSGD, self._trainers[0].optimizer).begin_rows(rows_mp, [order.lr for order in orders])
        losses, many = [], len(busy)
        for t in range(orders[0].tau):
            if orders[many - 1].tau <= t:
                many = sum(order.tau > t for order in orders)
                net = self._bind(rows_mp[:many])
            if t:
                values = net.forward(values[0][:many])
            grad_mbo, loss_m = descend(values[-1])
            net.backward(grad_mbo, values)
            step(self._grads_mp[:many])
            losses.append(loss_m)
        if moved:
            self.rows.values_mp.index_copy_(0, where, rows_mp)
        return losses


def kind_of(model: nn.Module, trainer: Trainer) -> Hashable:
    """Return what participants of one stack have in common; None if autograd is needed for this one."""
    layers, params = layers_of(model), list(model.parameters())
    own = [param for layer in layers or () for param in layer.parameters()]
    is_plain = len(own) == len(params) == len(trainer.params) > 0 and all(map(operator.is_, own, params))
    if not is_plain or type(trainer.optimizer) is not LocalSGD or trainer.clip_norm is not None:
        return None
    return tuple(map(repr, layers or ())), str(sorted(vars(trainer.optimizer).items()))


def _diverged(losses: Sequence[Tensor], busy: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Yield the participants with a loss that is not finite, and the first local iteration of it."""
    if not losses or bool(torch.cat([loss.flatten() for loss in losses]).isfinite().all()):
        return
    for t, loss in reversed(list(enumerate(losses))):
        yield from ((busy[row], t) for row in (~loss.flatten(1).isfinite().all(1)).nonzero().flatten().tolist())
