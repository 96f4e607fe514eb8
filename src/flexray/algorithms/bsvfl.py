"""BS-VFL, a pipeline with bounded staleness (Wang et al., KDD 2025).

All go through the same batches in the same order, and parties may be ahead of their gradients:

    every party, batch after batch:
        it sends its embeddings of the batch
        while it waits for gradients of more than D batches, or the next of them is there:
            it takes Q local iterations along that gradient, with the features of that batch, as in FedBCD
    the server, batch after batch, once it has everybody's embeddings:
        it sends every party the gradient of its own, and takes Q local iterations

A round is a batch: it ends when the server has taken its iterations and every party is about to send the next one. It
lasts as long as that takes, event by event; t_comm is half the way up and half the way down, and embeddings and the
server's gradients take no time, as in all rounds. With D = 0 it is FedBCD.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from flexray.algorithms.base import Moment, Plan, System
from flexray.algorithms.fedbcd import FedBCD
from flexray.core.checks import whole
from flexray.core.conforming import conforms

MOST_STALE = 1000
ROUNDING = 1e-9
"""A gradient that comes so small a part of its local iterations' time too late is there."""


class Pipe(NamedTuple):
    """How far everybody is when a round starts; times are in units since then, and most are before it.

    Args:
        round: 0-based.
        sends: When each party sends its embeddings of the round's batch.
        due: When the gradients arrive that each party has not stepped along, in order.
        server: When the server has taken its local iterations on the batch before.
    """

    round: int
    sends: tuple[float, ...]
    due: tuple[tuple[float, ...], ...]
    server: float


class BSVFL(FedBCD):
    """FedBCD in which parties send embeddings before they have the gradients of those before.

    Args:
        system: The participants.
        local_iterations: Q, along each gradient.
        max_staleness: D, batches of which a party may lack gradients when it sends the embeddings of the next.
    """

    def __init__(self, system: System, local_iterations: int = 5, max_staleness: int = 3) -> None:
        super().__init__(system, local_iterations)
        self.max_staleness = whole("algo.max_staleness", max_staleness, low=0, high=MOST_STALE)
        self.per_gradient = self.local_iterations if self.max_staleness else 0
        self._pipes: tuple[Pipe, ...] = ()

    @override
    def save(self) -> Any:
        return tuple(map(tuple, self._pipes))

    @override
    def load(self, saved: Any) -> None:
        parties, times = len(self.system.names) - 1, tuple[float, ...]
        kind = tuple[tuple[int, times, tuple[times, ...], float], ...]  # type: ignore[valid-type]
        if not conforms(saved, kind) or any({len(sends), len(due)} != {parties} for _, sends, due, _ in saved):
            raise ValueError(f"algorithm: expected when everybody sends and gradients arrive, got {str(saved)[:80]}")
        self._pipes = tuple(Pipe(*pipe) for pipe in saved)

    @override
    def plan(self, now: Moment) -> Plan:
        if not self.max_staleness:
            return super().plan(now)
        start, system, times = self._start(now.round), self.system, self.unit_times(now)
        computes = self.computes(now)
        units = [self.local_iterations * unit if own else 0.0 for unit, own in zip(times, computes, strict=True)]
        half = [link / 2 for link in system.party_comm_units]
        there = [k for k in range(len(half)) if k not in now.absent and k not in system.labels_only]
        arrived = max((start.sends[k] + half[k] for k in there), default=0.0)
        answered = max(arrived, start.server)
        sends, due, tau = list(start.sends), list(start.due), [0] * len(times)
        for k in there:
            sends[k], due[k] = self._catch_up(start.sends[k], (*start.due[k], answered + half[k]), units[k])
            tau[k] = self.local_iterations * (len(start.due[k]) + 1 - len(due[k])) * computes[k]
        tau[-1] = self.local_iterations * computes[-1]
        server = answered + units[-1]
        end = max(0.0, server, *(sends[k] for k in there))
        if now.absent and not any(computes):
            end = max(end, system.timeout_units)
        for k in now.absent:
            sends[k] = end  # it is back with the next round at the earliest
        left = Pipe(now.round + 1, _since(end, sends), tuple(_since(end, own) for own in due), server - end)
        self._pipes = (start, left)
        longest = max(t * unit if t else 0.0 for t, unit in zip(tau, times, strict=True))
        stale = tuple(float(len(own)) for own in start.due)
        return Plan(tuple(tau), system.lr, end, max(0.0, end - longest), times, staleness=stale)

    def _start(self, index: int) -> Pipe:
        """Return how far everybody is when a round starts, however often it is planned."""
        parties = len(self.system.names) - 1
        fresh = Pipe(index, (0.0,) * parties, ((),) * parties, 0.0)
        return next((pipe for pipe in self._pipes if pipe.round == index), fresh)

    def _catch_up(self, time: float, due: Sequence[float], units: float) -> tuple[float, tuple[float, ...]]:
        """Return when a party sends its next embeddings, and when gradients arrive for which it then waits.

        Args:
            time: When it sends embeddings.
            due: When the gradients of these and of those before arrive.
            units: Length of the local iterations along a gradient.
        """
        taken = 0
        while taken < len(due) and (len(due) - taken > self.max_staleness or due[taken] <= time + ROUNDING * units):
            time = max(time, due[taken]) + units
            taken += 1
        return time, tuple(due[taken:])


def _since(end: float, times: Sequence[float]) -> tuple[float, ...]:
    return tuple(time - end for time in times)
