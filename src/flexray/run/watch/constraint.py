"""Warns when learning rates leave the range for which the theory promises convergence."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from typing_extensions import override

from flexray.algorithms.theory import violations
from flexray.core.messages import Ended, Record, RoundRecord, Started
from flexray.optimizers import LocalOptimizer
from flexray.run.watch.base import Observer, ObserverState

log = logging.getLogger("flexray")


class ConstraintObserver(Observer):
    """Checks eta <= 1 / (16 tau max(L, L_k) w_bar) in every round, given the smoothness.

    Args:
        smoothness: max(L, L_k) of each participant, the parties and then the server.
        optimizers: Their local optimizers.
    """

    def __init__(self, smoothness: Sequence[float], optimizers: Sequence[LocalOptimizer]) -> None:
        self._smoothness = tuple(smoothness)
        self._optimizers = tuple(optimizers)
        self._names: tuple[str, ...] = ()
        self._rounds = 0

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            self._names = record.names
        elif isinstance(record, RoundRecord):
            self._check(record)
        elif isinstance(record, Ended) and self._rounds:
            log.warning("the theory's limit on the learning rate was exceeded in %d rounds", self._rounds)

    @override
    def save(self) -> ObserverState:
        return {"rounds": self._rounds}

    @override
    def load(self, state: ObserverState) -> None:
        self._rounds = state["rounds"]

    def _check(self, record: RoundRecord) -> None:
        w_bar = [o.max_weight(t, lr) for o, t, lr in zip(self._optimizers, record.tau, record.lr, strict=True)]
        found = violations([record.lr], [record.tau], [w_bar], min(self._smoothness), self._smoothness)
        if found and not self._rounds:
            k = found[0][1]
            limit = 1 / (16 * record.tau[k] * self._smoothness[k] * w_bar[k])
            log.warning(
                "round %d: the learning rate %.3g of %s exceeds the theory's limit 1 / (16 tau L w_bar) = %.3g",
                record.round, record.lr[k], self._names[k], limit,
            )  # fmt: skip
        self._rounds += bool(found)
