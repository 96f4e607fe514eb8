"""Parties of one host that share each operation of their local iterations.

Parties with equal layers and optimizers run side by side (:mod:`flexray.engine.parties.learners`): a local iteration
costs Python and torch's overhead once, not once per party. A party with fewer local iterations drops out of the
stack when it is done. With ``stack=exact`` parties are stacked only where a rehearsal gives the very bits that each
party computes alone.

Shapes: m = parties of a stack, b = samples of a batch, o = embedding width, p = parameters of a party.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from flexray.core.messages import FloatArray, Order, Report
from flexray.data.base import Split
from flexray.data.batches import Batch
from flexray.data.side_by_side import Load, side_by_side
from flexray.engine.parties.learners import Descent, Learners
from flexray.engine.parties.networks import LossGradient, Networks
from flexray.engine.parties.party import Party
from flexray.engine.parties.phi import Phi, add_products


class Stack:
    """Parties that run side by side.

    Args:
        parties: At least one, all of one :func:`flexray.engine.parties.learners.kind_of`.
        rest: The layers of the server's model after its first, a linear one; none where the labels are at the server.
    """

    def __init__(self, parties: Sequence[Party], rest: Sequence[nn.Module] = ()) -> None:
        self.parties = parties
        self.numbers = [party.index - 1 for party in parties]
        self.learners = Learners([party.model for party in parties], [party.trainer for party in parties])
        self.rest = rest
        self._rest_params = [param for layer in rest for param in layer.parameters()]
        self._values: list[Tensor] = []
        self._loads: dict[Split, Load | None] = {}

    def take(self, batch: Batch) -> Tensor:
        """Load a batch; return its embeddings [m, b, o], with which the first local iteration begins."""
        self._values = self.learners.forward(self._inputs(batch))
        return self._values[-1]

    def loads(self, split: Split) -> Load | None:
        """Return how samples of a split are loaded for all parties at once, [m, b, ...]; None: one by one."""
        if split not in self._loads:
            self._loads[split] = self._find(split)
        return self._loads[split]

    def _find(self, split: Split) -> Load | None:
        flattens = self.parties[0].flattens
        if any(party.flattens != flattens for party in self.parties):
            return None
        load = side_by_side([party.features[split] for party in self.parties])
        return load if load is None or not flattens else lambda ids_b: load(ids_b).flatten(2)

    def _inputs(self, batch: Batch) -> Tensor:
        if (load := self.loads("train")) is not None:
            return load(batch.ids_b)
        x = [party.take(batch) for party in self.parties]
        return x[0].unsqueeze(0) if len(x) == 1 else torch.stack(x)

    def evaluate(self, x_mb: Tensor, at_once: int) -> Tensor:
        """Return the embeddings [m, b, o] of inputs, so many parties at a time."""
        starts = range(0, len(self.parties), at_once)
        return torch.cat([self.learners.forward_of(start, x_mb[start : start + at_once]) for start in starts])

    def embed(self, batch: Batch, index: int, absent: Collection[int] = ()) -> dict[int, FloatArray]:
        """Load a batch; return what arrives of it from every party that is not ``absent``, by number (0-based)."""
        both = zip(self.parties, self.take(batch).numpy(), strict=True)
        there = ((party, block_bo) for party, block_bo in both if party.index - 1 not in absent)
        return {party.index - 1: party.sends(block_bo, batch, index) for party, block_bo in there}

    def train(self, phi: Phi, labels_b: Tensor, orders: Mapping[int, Order]) -> dict[int, Report]:
        """Run the local iterations of a round on the batch that was embedded last.

        Args:
            phi: What the server sent.
            labels_b: Labels of the batch.
            orders: Those of the parties that take part, by number (0-based).
        """

        def descent(busy: Sequence[int]) -> Descent:
            others_mbc, weight_mco = phi.stacked([self.numbers[k] for k in busy])
            weight_moc, loss = (
                weight_mco.transpose(1, 2),
                LossGradient(self.parties[0].trainer.task, labels_b, len(busy)),
            )

            def down(embedding_mbo: Tensor) -> tuple[Tensor, Tensor]:
                many = len(embedding_mbo)
                score_mbc = add_products(others_mbc[:many], embedding_mbo, weight_moc[:many])
                rest = Networks(self.rest, [param.expand(many, *param.shape) for param in self._rest_params])
                values = rest.forward(score_mbc)
                grad_mbc, loss_m = loss(values[-1])
                return torch.bmm(rest.backward(grad_mbc, values, inward=True), weight_mco[:many]), loss_m

            return down

        return self._run(descent, orders)

    def follow(self, grads: Mapping[int, FloatArray], orders: Mapping[int, Order]) -> dict[int, Report]:
        """Run the local iterations of a round along the gradients [b, o] that the server sent, by number."""

        def descent(busy: Sequence[int]) -> Descent:
            grad_mbo = torch.from_numpy(np.stack([grads[self.numbers[k]] for k in busy]))

            def along(embedding_mbo: Tensor) -> tuple[Tensor, Tensor]:
                grad = grad_mbo[: len(embedding_mbo)]
                return grad, embedding_mbo * grad

            return along

        return self._run(descent, orders)

    def _run(self, descent: Callable[[Sequence[int]], Descent], orders: Mapping[int, Order]) -> dict[int, Report]:
        """Run local iterations, given orders by number; return the reports by number."""
        own = {k: orders[number] for k, number in enumerate(self.numbers) if number in orders}
        values, self._values = self._values, []
        return {self.numbers[k]: report for k, report in self.learners.run(values, descent, own).items()}
