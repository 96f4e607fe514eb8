"""Dropping inputs of a model by a group lasso on the columns of its first layer (docs/algorithms.md, LESS-VFL).

Shapes: o = outputs of the first layer, i = its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from flexray.core.errors import ConfigError
from flexray.data.base import BoolArray
from flexray.engine.parties.phi import split_linear
from flexray.engine.parties.trainer import Trainer
from flexray.optimizers import LocalOptimizer, LocalSGD, Step


class GroupLasso(LocalOptimizer):
    """Proximal SGD: after each step, every column of one parameter [o, i] is shortened by eta lambda, or set to zero.

    Args:
        place: The parameter's place.
        penalty: lambda.
    """

    def __init__(self, place: int, penalty: float) -> None:
        self._place, self._penalty = place, penalty

    @override
    def begin(self, params: Sequence[Tensor], lr: float) -> Step:
        weight_oi, descend = params[self._place], LocalSGD().begin(params, lr)

        def step(grads: Sequence[Tensor]) -> None:
            descend(grads)
            with torch.no_grad():
                length_i = torch.linalg.vector_norm(weight_oi, dim=0)
                weight_oi.mul_((1 - lr * self._penalty / length_i).clamp(min=0))

        return step


class Selection:
    """The first layer of a participant's model, and what trains it while inputs are dropped and afterwards.

    Args:
        name: The participant.
        model: Its model.
        trainer: Trains it at first.
        optimizer: Its local optimizer, as it begins.

    Raises:
        ConfigError: The model does not begin with a linear layer that is trained.
    """

    def __init__(self, name: str, model: nn.Module, trainer: Trainer, optimizer: LocalOptimizer) -> None:
        self._trainer, self._optimizer = trainer, optimizer
        first, rest = split_linear(model)
        places = [place for place, param in enumerate(trainer.params) if first is not None and param is first.weight]
        if not places:
            raise ConfigError(
                f"{name}: the algo drops inputs of a first linear layer, and its model, {type(model).__name__}, has"
                " none that is trained; expected one such as mlp or linear"
            )
        (self._place,) = places
        self._is_all = rest is None

    def leave_out(self, kept_o: BoolArray) -> None:
        """Take the outputs [o] that nobody uses from a model that is one layer: no input is kept for them."""
        if self._is_all:
            weight_oi = self._trainer.params[self._place]
            with torch.no_grad():
                weight_oi[torch.from_numpy(~kept_o).to(weight_oi.device)] = 0

    def dropping(self, penalty: float) -> Trainer:
        """Return what drops inputs."""
        return self._with(GroupLasso(self._place, penalty))

    def after(self) -> Trainer:
        """Return what trains the inputs that are left; its optimizer begins anew."""
        return self._with(self._optimizer, self._place)

    def _with(self, optimizer: LocalOptimizer, pruned: int | None = None) -> Trainer:
        usual = self._trainer
        return Trainer(usual.params, optimizer, usual.task, usual.clip_norm, pruned)

    def left(self) -> BoolArray:
        """Return which inputs are left [i]."""
        left_i: BoolArray = (self._trainer.params[self._place] != 0).any(dim=0).cpu().numpy()
        return left_i
