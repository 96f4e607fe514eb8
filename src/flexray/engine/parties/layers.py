"""Several networks of equal layers at once, with their gradients written out.

Parameters of one layer are stacked, [m, ...]; each network's own stand in one row of memory, so that a step of the
optimizer is one operation for all. Each product is the one that autograd computes for a network alone, with operands of
the same strides, only batched: on the CPU nearly all shapes give the same bits, which a rehearsal checks
(:mod:`flexray.engine.parties.rehearsal`).

Shapes: m = networks, b = samples, i and o = inputs and outputs of a layer, c = outputs of the whole model, p = numbers
in a network's row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from flexray.engine.parties.phi import add_products, is_plain
from flexray.models import MLP, Linear
from flexray.tasks import Task

aten = torch.ops.aten
ALIGNED = 16
"""Every parameter starts at a multiple of so many numbers, as memory of its own would."""
SEQUENCES = (MLP, nn.Sequential)
KNOWN = (Linear, nn.Linear, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Flatten, nn.Identity)


class Layer(ABC):
    """One layer of all networks, for a batch."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs [m, b, ...] of inputs ``x`` [m, b, ...]."""

    @abstractmethod
    def backward(self, grad: Tensor, x: Tensor, y: Tensor, inward: bool) -> Tensor:
        """Write the gradients of the parameters, and return the gradient with respect to the inputs.

        Args:
            grad: Gradient with respect to the outputs.
            x: The inputs.
            y: The outputs.
            inward: Whether the result is wanted; else it means nothing.
        """


class Affine(Layer):
    """A linear layer.

    Args:
        weight_moi: Its weights.
        bias_m1o: Its biases, if any.
        grads: Where the gradients of both go; empty: nowhere, the layer is fixed.
    """

    def __init__(self, weight_moi: Tensor, bias_m1o: Tensor | None, grads: Sequence[Tensor] = ()) -> None:
        self._weight_moi, self._weight_mio = weight_moi, weight_moi.transpose(1, 2)
        self._bias_m1o, self._grads = bias_m1o, grads

    @override
    def forward(self, x: Tensor) -> Tensor:
        if self._bias_m1o is None:
            return torch.bmm(x, self._weight_mio)
        return add_products(self._bias_m1o, x, self._weight_mio)

    @override
    def backward(self, grad: Tensor, x: Tensor, y: Tensor, inward: bool) -> Tensor:
        if self._grads:
            torch.bmm(grad.transpose(1, 2), x, out=self._grads[0])
            if self._bias_m1o is not None:
                torch.sum(grad, 1, keepdim=True, out=self._grads[1])
        return torch.bmm(grad, self._weight_moi) if inward else grad


class Pointwise(Layer):
    """An activation.

    Args:
        forward: y of x.
        backward: The gradient with respect to x, of that with respect to y, x and y.
    """

    def __init__(self, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor, Tensor, Tensor], Any]) -> None:
        self._forward, self._backward = forward, backward

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self._forward(x)

    @override
    def backward(self, grad: Tensor, x: Tensor, y: Tensor, inward: bool) -> Tensor:
        result: Tensor = self._backward(grad, x, y)
        return result


class Flatten(Layer):
    """All of a sample in one vector."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2)

    @override
    def backward(self, grad: Tensor, x: Tensor, y: Tensor, inward: bool) -> Tensor:
        return grad.reshape(x.shape)


def layers_of(module: nn.Module) -> list[nn.Module] | None:
    """Return the layers of a network in order; None if one is of another kind, or is changed by hooks or the like."""
    if not is_plain(module, type(module)):
        return None
    if type(module) in SEQUENCES:
        parts = [layers_of(part) for part in module.children()]
        return None if None in parts else [layer for part in parts if part is not None for layer in part]
    if type(module) is nn.Flatten and (module.start_dim, module.end_dim) != (1, -1):
        return None
    return [module] if type(module) in KNOWN else None


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
        self._layers = [_bind(layer, left, into) for layer in layers]

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


def _bind(layer: nn.Module, params: list[Tensor], grads: list[Tensor]) -> Layer:
    """Return a layer with the next of the stacked parameters, which are taken off their lists."""
    if isinstance(layer, nn.Linear):
        many = 1 if layer.bias is None else 2
        own, into = params[:many], grads[:many]
        del params[:many], grads[:many]
        bias = own[1].unsqueeze(1) if many == 2 else None
        return Affine(own[0], bias, [into[0], *(part.unsqueeze(1) for part in into[1:])] if into else ())
    return Flatten() if isinstance(layer, nn.Flatten) else _pointwise(layer)


def _pointwise(layer: nn.Module) -> Pointwise:
    if isinstance(layer, nn.ReLU):
        return Pointwise(torch.relu, lambda grad, x, y: aten.threshold_backward(grad, y, 0))
    if isinstance(layer, nn.Tanh):
        return Pointwise(torch.tanh, lambda grad, x, y: aten.tanh_backward(grad, y))
    if isinstance(layer, nn.Sigmoid):
        return Pointwise(torch.sigmoid, lambda grad, x, y: aten.sigmoid_backward(grad, y))
    if isinstance(layer, nn.GELU):
        how = layer.approximate
        gelu = partial(functional.gelu, approximate=how)
        return Pointwise(gelu, lambda grad, x, y: aten.gelu_backward(grad, x, approximate=how))
    return Pointwise(lambda x: x, lambda grad, x, y: grad)  # nn.Identity


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
