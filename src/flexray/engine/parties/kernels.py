"""Whether layers compute the same bits for several networks at once as for each alone, tried on dense random numbers.

Torch chooses kernels by shape, and the batched one may sum in another order. In a run that shows rarely where most
numbers are zero or small, so it is tried here on numbers that are neither.

Shapes: m = networks, b = samples.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from flexray.engine.parties.networks import Networks, Rows

FEW = (1, 2, 3, 9)
"""Numbers of networks that are tried, as far as there are so many: many take the kernel that a few do."""
TINY = 400
"""Torch computes smaller products, in multiplications, in a loop of its own where they are batched."""
DRAWS, NUMBERS = 3, 4_000
"""Tries of a layer with parameters; outputs of any other that are compared, since there only a few might differ."""


@lru_cache(maxsize=1)
def _known() -> dict[Hashable, bool]:
    return {}


def remembered(key: Hashable, find: Callable[[], bool]) -> bool:
    """Return what this process found before under a key, or find it now: shapes decide, never values."""
    known = _known()
    if key not in known:
        known[key] = find()
    return known[key]


def layers_agree(
    layers: Sequence[nn.Module], sample_shape: Sequence[int], size: int, many: int, dtype: torch.dtype
) -> bool:
    """Try layers on batches of one size.

    Args:
        layers: Those of one network.
        sample_shape: Shape of one sample.
        size: Number of samples b.
        many: Number of networks m.
        dtype: Type of all numbers.
    """
    shape_b = (size, *sample_shape)
    for layer in layers:
        if isinstance(layer, nn.Linear) and size * layer.weight.numel() < TINY:
            return False
        for m in FEW:
            if m <= many and not remembered(
                (repr(layer), shape_b, m, dtype), partial(_agrees, layer, shape_b, m, dtype)
            ):
                return False
        with torch.no_grad():
            shape_b = tuple(layer(torch.zeros(shape_b, dtype=dtype)).shape)
    return True


def _agrees(layer: nn.Module, shape_b: Sequence[int], many: int, dtype: torch.dtype) -> bool:
    draw = torch.Generator().manual_seed(0)
    x_mb = torch.zeros(many, *shape_b, dtype=dtype)
    models = [copy.deepcopy(layer).requires_grad_() for _ in range(many)]
    params = [list(model.parameters()) for model in models]
    rows = Rows(params) if params[0] else None
    for _ in range(DRAWS if rows else 1 + NUMBERS // x_mb.numel()):
        for part in (x_mb, *([rows.values_mp] if rows else [])):
            part.normal_(generator=draw)
        if not _agree_once(models, rows, x_mb, draw):
            return False
    return True


def _instead(grad_b: Tensor, _: Tensor) -> Tensor:
    """Return the gradient with which a backward pass goes on: torch imports SymPy to begin with one, 0.5 s."""
    return grad_b


def _agree_once(models: Sequence[nn.Module], rows: Rows | None, x_mb: Tensor, draw: torch.Generator) -> bool:
    """Compare outputs and gradients."""
    with torch.no_grad():
        values_mp = rows.values_mp if rows else x_mb.new_zeros(len(models), 0)
        grads_mp = torch.zeros_like(values_mp)
        params, grads = (rows.views(part) if rows else [] for part in (values_mp, grads_mp))
        net = Networks([models[0]], params, grads)
        values = net.forward(x_mb)
        above_mb = torch.empty_like(values[-1]).normal_(generator=draw)
        inward = net.backward(above_mb, values, inward=True)
    for k, model in enumerate(models):
        own = copy.deepcopy(model)  # in memory of its own
        x_b = x_mb[k].clone().requires_grad_()
        y_b = own(x_b)
        y_b.register_hook(partial(_instead, above_mb[k].clone()))
        into, *of_params = torch.autograd.grad(y_b.sum(), [x_b, *own.parameters()])
        pairs = [
            (values[-1][k], y_b),
            (inward[k], into),
            *((part[k], one) for part, one in zip(grads, of_params, strict=True)),
        ]
        if not all(torch.equal(one, other) for one, other in pairs):
            return False
    return True
