"""A party that may be ahead of its gradients (docs/algorithms.md, BS-VFL).

Shapes: b = samples of a batch, o = the party's embedding width.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np
from typing_extensions import override

from flexray.core.errors import ConfigError
from flexray.core.messages import FloatArray, Order, Report, Saved
from flexray.data.base import BoolArray
from flexray.engine.parties.apart import ApartParty
from flexray.engine.parties.party import Inputs
from flexray.engine.parties.spec import ParticipantSpec, Shared
from flexray.engine.parties.state import fitting, under, with_more

GRADIENTS = "gradients."
"""Prefix of the gradients along which a party has not stepped yet, by round, in what is saved of it."""


@dataclass(frozen=True)
class Waiting:
    """A gradient [b, o], and what the party has of its batch.

    Args:
        round: 0-based.
        inputs: What the model is called with.
        has_b: Which of the samples the party has; None: all.
        grad_bo: The gradient.
    """

    round: int
    inputs: Inputs
    has_b: BoolArray | None
    grad_bo: FloatArray


class PipelinedParty(ApartParty):
    """A party that takes local iterations along gradients of earlier batches, as many as an order has time for."""

    def __init__(self, spec: ParticipantSpec, shared: Shared) -> None:
        super().__init__(spec, shared)
        self._per_gradient, self._stream = shared.per_gradient, shared.batches()
        self._waiting = deque[Waiting]()

    @property
    @override
    def computes_plainly(self) -> bool:
        return False

    @override
    def follow(self, grad_bo: FloatArray, order: Order, index: int, kind: Literal["turn", "round"]) -> Report:
        """Take over the gradient of the embeddings that were sent last, and step along those that come first.

        Whatever ``order.tau`` has room for is taken; of a round whose embeddings are those of the present parameters,
        they serve for the first local iteration.
        """
        if not self._trains:
            return self._idle(order)
        self._waiting.append(Waiting(index, self._batch, self._has_b, np.array(grad_bo)))
        count, each = order.tau // self._per_gradient, order._replace(tau=self._per_gradient)
        if count > len(self._waiting):
            raise ConfigError(f"algo: {self.name} is to step along {count} gradients and has {len(self._waiting)}")
        reports: list[Report] = []
        for _ in range(count):
            past = self._waiting.popleft()
            if past.round != index or reports:
                self._batch, self._has_b, self._sent = past.inputs, past.has_b, None
            reports.append(super().follow(past.grad_bo, each, past.round, kind))
        diverged = (
            place * self._per_gradient + report.diverged_at
            for place, report in enumerate(reports)
            if report.diverged_at is not None
        )
        return self._idle(each if reports else order)._replace(tau=order.tau, diverged_at=next(diverged, None))

    @override
    def save(self) -> Saved:
        waiting = {f"{GRADIENTS}{own.round}": own.grad_bo for own in self._waiting}
        return with_more(super().save(), waiting)

    @override
    def load(self, saved: Saved) -> None:
        super().load(saved)
        self._waiting = deque(self._again(saved, index) for index in sorted(map(int, under(saved, GRADIENTS))))

    def _again(self, saved: Saved, index: int) -> Waiting:
        batch = self._stream.batch(index)
        self.take(batch)
        grad_bo = fitting(saved, f"{GRADIENTS}{index}", (len(batch.ids_b), self.width))
        return Waiting(index, self._batch, self._has_b, np.array(grad_bo))
