"""Layers of several equal networks at once, with their gradients written out.

Each product is the one that autograd computes for a network alone, with operands of the same strides, only batched: on
the CPU nearly all shapes give the same bits, which a rehearsal checks (:mod:`flexray.engine.parties.rehearsal`).

Shapes: m = networks, b = samples, i and o = inputs and outputs of a layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from flexray.engine.parties.phi import add_products, is_plain
from flexray.models import MLP, Linear

aten = torch.ops.aten
SEQUENCES = (MLP, nn.Sequential)
KNOWN = (Linear, nn.Linear, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.LayerNorm, nn.Flatten, nn.Identity)


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


class Normalized(Layer):
    """A layer norm: one network after another, since a kernel for all rounds otherwise, but without autograd.

    Args:
        layer: That of one network.
        params: Its weights [m, ...] and biases, as far as it has them.
        grads: Where the gradients of both go; empty: nowhere, the layer is fixed.
    """

    def __init__(self, layer: nn.LayerNorm, params: Sequence[Tensor], grads: Sequence[Tensor] = ()) -> None:
        self._shape, self._eps, self._grads = list(layer.normalized_shape), layer.eps, grads
        self._params = params

    @override
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self._normalized(x, k)[0] for k in range(len(x))])

    def _normalized(self, x: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs of network ``k``, with the means and deviations that it took."""
        found: tuple[Tensor, Tensor, Tensor] = aten.native_layer_norm(x[k], self._shape, *self._own(k), self._eps)
        return found

    def _own(self, k: int) -> list[Tensor | None]:
        """Return weight and bias of network ``k``."""
        return [*(part[k] for part in self._params), None, None][:2]

    @override
    def backward(self, grad: Tensor, x: Tensor, y: Tensor, inward: bool) -> Tensor:
        into, wanted = [], [inward, *(place < len(self._grads) for place in range(2))]
        for k in range(len(x)):
            _, mean, deviation = self._normalized(x, k)
            own = aten.native_layer_norm_backward(grad[k], x[k], self._shape, mean, deviation, *self._own(k), wanted)
            for part, found in zip(self._grads, own[1:], strict=False):
                part[k].copy_(found)
            into.append(own[0])
        return torch.stack(into) if inward else grad


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


def bind(layer: nn.Module, params: list[Tensor], grads: list[Tensor]) -> Layer:
    """Return a layer with the next of the stacked parameters, which are taken off their lists."""
    if isinstance(layer, nn.Linear):
        own, into = _taken(layer, params, grads)
        bias = own[1].unsqueeze(1) if len(own) == 2 else None
        return Affine(own[0], bias, [into[0], *(part.unsqueeze(1) for part in into[1:])] if into else ())
    if isinstance(layer, nn.LayerNorm):
        return Normalized(layer, *_taken(layer, params, grads))
    return Flatten() if isinstance(layer, nn.Flatten) else _pointwise(layer)


def _taken(layer: nn.Module, *lists: list[Tensor]) -> list[list[Tensor]]:
    """Take the parameters of a layer, and their gradients, off the beginning of their lists."""
    many = len(list(layer.parameters()))
    own = [part[:many] for part in lists]
    for part in lists:
        del part[:many]
    return own


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
