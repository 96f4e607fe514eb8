"""Several equal networks: their memory, what they make of a batch, and the gradients of a loss.

Parameters of one layer are stacked, [m, ...]; each network's own stand in one row of memory, so that a step of the
optimizer is one operation for all.

Shapes: m = networks, b = samples, c = outputs of the whole model, p = numbers in a network's row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from flexray.engine.parties.layers import bind
from flexray.tasks import Task

aten = torch.ops.aten
ALIGNED = 16
"""Every parameter starts at a multiple of so many numbers, as memory of its own would."""


class Rows:
    """The parameters of m networks, a row for each.

    Args:
        networks: The parameters of every network; they become views of its row.
    """

    def __init__(self, networks: Sequence[Sequence[nn.Parameter]]) -> None:
        first = networks[0]
        self.shapes = [p.shape for p in first]
        room = [-(-p.numel() // ALIGNED) * ALIGNED for p in first]
        self._starts = [0, *accumulate(room)]
        self.values_mp = torch.zeros(len(networks), self._starts[-1], dtype=first[0].dtype)
        for view, *params in zip(self.views(self.values_mp), *networks, strict=True):
            for own, param in zip(view, params, strict=True):
                own.copy_(param.detach())
                param.data = own

    def views(self, rows_mp: Tensor) -> list[Tensor]:
        """Return every parameter [m, *shape] in rows of this layout."""
        return [
            rows_mp[:, start : start + shape.numel()].view(len(rows_mp), *shape)
            for start, shape in zip(self._starts, self.shapes, strict=False)
        ]


class Networks:
    """m networks bound to their memory.

    Args:
        layers: The layers of one of them.
        params: Every parameter, stacked.
        grads: Where their gradients go; empty: nowhere, the networks are fixed.
    """

    def __init__(self, layers: Sequence[nn.Module], params: Sequence[Tensor], grads: Sequence[Tensor] = ()) -> None:
        left, into = list(params), list(grads)
        self._layers = [bind(layer, left, into) for layer in layers]

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the inputs [m, b, ...] and what every layer makes of them; the last are the outputs."""
        values = [x]
        for layer in self._layers:
            values.append(layer.forward(values[-1]))
        return values

    def backward(self, grad: Tensor, values: Sequence[Tensor], inward: bool = False) -> Tensor:
        """Write all gradients; return that with respect to the inputs if it is wanted.

        Args:
            grad: Gradient with respect to the outputs.
            values: From :meth:`forward`.
            inward: Whether the result is wanted; else it means nothing.
        """
        for place in reversed(range(len(self._layers))):
            layer = self._layers[place]
            grad = layer.backward(grad, values[place], values[place + 1], inward or place > 0)
        return grad


class LossGradient:
    """The gradient of a batch's mean loss with respect to m networks' predictions [m, b, c].

    Args:
        task: The loss.
        labels_b: The labels, the same for all.
        many: The number of networks; fewer may be asked for later, never more.
    """

    def __init__(self, task: Task, labels_b: Tensor, many: int) -> None:
        self._task, self._labels_b, self._share = task, labels_b, 1.0 / len(labels_b)
        self._across = task.runs_across(len(labels_b))
        self._above: Tensor | None = None
        if task.is_classification:
            labels_1bc = labels_b.view(1, 1, -1) if self._across else labels_b.view(1, -1, 1)
            self._picks = labels_1bc.expand(many, -1, -1)

    def __call__(self, prediction_mbc: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient [m, b, c], and every sample's loss [m, b] or its negative."""
        if self._task.is_classification:
            return self._of_classes(prediction_mbc)
        error_mb = prediction_mbc[:, :, 0] - self._labels_b
        if self._task.loss == "l1":
            grad_mb, loss_mb = error_mb.sgn() * self._share, error_mb.abs()
        else:
            grad_mb, loss_mb = 2.0 * error_mb * self._share, error_mb.square()
        return grad_mb.unsqueeze(2), loss_mb

    def _of_classes(self, prediction_mbc: Tensor) -> tuple[Tensor, Tensor]:
        dim = 1 if self._across else 2
        scores = prediction_mbc.transpose(1, 2).contiguous() if self._across else prediction_mbc
        if self._above is None:
            self._above = torch.zeros_like(scores).scatter_(dim, self._picks, -self._share)
        many = len(scores)
        log = aten._log_softmax(scores, dim, False)
        grad = aten._log_softmax_backward_data(self._above[:many], log, dim, log.dtype)
        picked_mb = log.gather(dim, self._picks[:many]).squeeze(dim)
        return grad.transpose(1, 2) if self._across else grad, picked_mb
