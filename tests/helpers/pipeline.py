"""BS-VFL as its parties and its server would run it, event by event; nothing of flexray is used."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from helpers.published import Split, descend

Action = Callable[..., None]
COMES, GOES_ON = 0, 1
"""What comes at a moment comes before anybody goes on."""


@dataclass
class PipelineParty:
    """A loop with its queues: batches that were sent and wait, and gradients that are there."""

    cache: deque[Tensor] = field(default_factory=deque)
    grads: deque[Tensor] = field(default_factory=deque)
    sends: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    idle: bool = False


class Pipeline:
    """Everybody's work on some batches.

    Args:
        model: The models, trained in place.
        batches: IDs of every batch.
        local: Q.
        bound: D.
        units: How long everybody takes for Q local iterations, the server last.
        ways: How long a message of each party takes, in either direction.
    """

    def __init__(
        self, model: Split, batches: Sequence[Tensor], local: int, bound: int, units: Sequence[float],
        ways: Sequence[float],
    ) -> None:  # fmt: skip
        self.model, self.batches, self.local, self.bound = model, batches, local, bound
        self.units, self.ways = units, ways
        self.parties = [PipelineParty() for _ in ways]
        self.blocks: list[dict[int, Tensor]] = [{} for _ in batches]
        self.losses: list[float] = []
        self.served = [0.0]
        self._events: list[tuple[float, int, int, Action, tuple[object, ...]]] = []
        self._pushed = 0
        for k in range(len(ways)):
            self._at(0.0, GOES_ON, self._go_on, k)
        while self._events:
            time, _, _, action, args = heapq.heappop(self._events)
            action(time, *args)

    @property
    def ends(self) -> list[float]:
        """When the server has done a batch, and all parties are about to send the next."""
        sends = zip(*(party.sends for party in self.parties), strict=True)
        return [max(served, *own) for served, own in zip(self.served[1:], list(sends)[1:], strict=True)]

    @property
    def ages(self) -> list[tuple[float, ...]]:
        return list(zip(*(party.ages for party in self.parties), strict=True))

    def _at(self, time: float, order: int, action: Action, *args: object) -> None:
        heapq.heappush(self._events, (time, order, self._pushed, action, args))
        self._pushed += 1

    def _go_on(self, time: float, k: int) -> None:
        party = self.parties[k]
        party.idle = len(party.cache) > self.bound and not party.grads
        if party.grads:
            net, x, grad = self.model.parties[k], self.model.features[k][party.cache.popleft()], party.grads.popleft()
            descend(net, self.model.lr[k], self.local, lambda: (net(x) * grad).sum())
            self._at(time + self.units[k], GOES_ON, self._go_on, k)
        elif not party.idle:
            self._send(time, k, party)

    def _send(self, time: float, k: int, party: PipelineParty) -> None:
        number = len(party.sends)
        party.sends.append(time)
        if number == len(self.batches):
            return
        ids = self.batches[number]
        party.ages.append(len(party.cache))
        party.cache.append(ids)
        block = self.model.parties[k](self.model.features[k][ids]).detach()
        self._at(time + self.ways[k], COMES, self._serve, k, number, block)
        self._at(time, GOES_ON, self._go_on, k)

    def _serve(self, time: float, k: int, number: int, block: Tensor) -> None:
        blocks, ids = self.blocks[number], self.batches[number]
        blocks[k] = block.requires_grad_()
        if len(blocks) < len(self.parties):
            return
        start = max(time, self.served[-1])
        sent = [blocks[k] for k in range(len(self.parties))]
        loss = self.model.loss(sent, ids)
        for k, grad in enumerate(torch.autograd.grad(loss, sent)):
            self._at(start + self.ways[k], COMES, self._take, k, grad)
        known = [block.detach() for block in sent]
        descend(self.model.server, self.model.lr[-1], self.local, lambda: self.model.loss(known, ids))
        self.losses.append(loss.item())
        self.served.append(start + self.units[-1])

    def _take(self, time: float, k: int, grad: Tensor) -> None:
        party = self.parties[k]
        party.grads.append(grad)
        if party.idle:
            party.idle = False
            self._at(time, GOES_ON, self._go_on, k)
