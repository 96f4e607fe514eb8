"""Local iterations, the same for a party and for the server (paper, eq. for theta_k^{r,t+1})."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from flexray.core.messages import Order, Report
from flexray.optimizers import LocalOptimizer, clip_gradients
from flexray.tasks import Task

Gradients = Callable[[], tuple[Sequence[Tensor], Tensor]]
"""Returns the gradients at the current parameters, and a number that is not finite if they cannot be followed."""


class Pacer(Protocol):
    """Decides in real time how many local iterations a round has, and when."""

    taken: int

    @property
    def unit_s(self) -> float:
        """Seconds of computing per local iteration."""

    @property
    def span_s(self) -> float:
        """Seconds from the first local iteration to the end of the last rest."""

    def iterations(self, tau: int) -> Iterator[int]:
        """Yield once for each local iteration."""


@dataclass
class Trainer:
    """Runs the local iterations of one participant.

    Args:
        params: The participant's trainable parameters, changed in place.
        optimizer: Its local optimizer.
        task: The loss.
        clip_norm: Largest gradient norm, or None for no clipping.
        pruned: The place of a parameter [o, i] whose columns stay as they are where they are zero; None: there is none.
    """

    params: Sequence[Tensor]
    optimizer: LocalOptimizer
    task: Task
    clip_norm: float | None = None
    pruned: int | None = None

    def __post_init__(self) -> None:
        self.optimizer = copy.deepcopy(self.optimizer)  # it may keep state, which is this participant's alone

    def down(self, predict: Callable[[], Tensor], labels_b: Tensor) -> Gradients:
        """Return the gradients of the loss, and the loss.

        Args:
            predict: Computes the batch's prediction [b, c] from the current parameters.
            labels_b: Labels of the batch.
        """
        return self.descent(lambda: self.task.loss_fn(predict(), labels_b))

    def descent(self, loss_of: Callable[[], Tensor]) -> Gradients:
        """Return the gradients of a loss that is computed from the current parameters, and the loss."""

        def gradients() -> tuple[Sequence[Tensor], Tensor]:
            loss = loss_of()
            return self._gradients(loss), loss.detach()

        return gradients

    def along(self, embed: Callable[[], Tensor], grad_bo: Tensor) -> Gradients:
        """Return the gradients J^T v for a given v, which stays the same while the parameters move.

        Args:
            embed: Computes the embeddings [b, o] from the current parameters; J is their Jacobian.
            grad_bo: v, the loss's gradient [b, o] with respect to the embeddings.
        """

        def gradients() -> tuple[Sequence[Tensor], Tensor]:
            along = scalar_along(embed(), grad_bo)
            return self._gradients(along), along.detach()

        return gradients

    def run(self, gradients: Gradients, order: Order, pacer: Pacer | None = None) -> Report:
        """Take ``order.tau`` local iterations on one batch.

        Args:
            gradients: From :meth:`down` or :meth:`along`; with the latter the report's loss means nothing.
            order: Number of iterations and learning rate.
            pacer: Takes the place of the order's number on the wall clock.
        """
        losses: list[Tensor] = []
        tau = order.tau
        if tau and self.params:
            step = self.optimizer.begin(self.params, order.lr)
            for _ in range(tau) if pacer is None else pacer.iterations(tau):
                grads, loss = gradients()
                step(grads)
                losses.append(loss)
            tau = tau if pacer is None else pacer.taken
        values = torch.stack(losses).tolist() if len(losses) > 1 else [loss.item() for loss in losses]
        return Report(
            tau=tau,
            max_weight=self.optimizer.max_weight(tau, order.lr),
            loss=values[0] if values else None,
            diverged_at=next((t for t, value in enumerate(values) if not math.isfinite(value)), None),
            unit_s=0.0 if pacer is None else pacer.unit_s,
            span_s=0.0 if pacer is None else pacer.span_s,
        )

    def rehearse(self, gradients: Gradients, order: Order, pacer: Pacer) -> Report:
        """Run local iterations to time them; the optimizer is put back as it was, the parameters are not."""
        kept = copy.deepcopy(self.optimizer)
        try:
            return self.run(gradients, order, pacer)
        finally:
            self.optimizer = kept

    def step_with_input(self, output: Tensor, input_bo: Tensor, order: Order, grad: Tensor | None = None) -> Tensor:
        """Take one step down the loss and return its gradient with respect to ``input_bo``, both at the same point.

        Args:
            output: The loss; or the prediction, given the loss's gradient with respect to it.
            input_bo: What the output was computed from, besides the parameters.
            order: Number of iterations, at most one, and learning rate.
            grad: The loss's gradient with respect to the prediction.
        """
        params = list(self.params) if order.tau else []
        scalar = output if grad is None else scalar_along(output, grad)
        wanted = [*params, input_bo]
        *grads, input_grad = torch.autograd.grad(scalar, wanted, allow_unused=True, materialize_grads=True)
        if params:
            self.optimizer.begin(params, order.lr)(self._clip(grads))
        return input_grad

    def _clip(self, grads: Sequence[Tensor]) -> Sequence[Tensor]:
        return grads if self.clip_norm is None else clip_gradients(grads, self.clip_norm)

    def _gradients(self, output: Tensor) -> Sequence[Tensor]:
        """Return the gradients of a scalar."""
        if not output.requires_grad:  # the parameters do not reach it, e.g. all outputs were dropped
            return [torch.zeros_like(p) for p in self.params]
        grads = torch.autograd.grad(output, self.params, allow_unused=True)
        filled = [torch.zeros_like(p) if g is None else g for p, g in zip(self.params, grads, strict=True)]
        if self.pruned is not None:
            filled[self.pruned] = filled[self.pruned] * (self.params[self.pruned] != 0).any(dim=0)
        return self._clip(filled)


def scalar_along(output: Tensor, grad: Tensor) -> Tensor:
    """Return a scalar whose gradient with respect to ``output`` is ``grad``, bit for bit.

    ``torch.autograd.grad(output, params, grad)`` would import SymPy, which takes up to a second of the first step.
    """
    return (output * grad).sum()


def trainable(module: nn.Module) -> list[Tensor]:
    """Return the parameters of ``module`` that want gradients."""
    return [p for p in module.parameters() if p.requires_grad]
