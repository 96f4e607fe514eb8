"""What flexray's speed is measured against: a plain PyTorch loop, and an obvious Ray version of it."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

BATCHES, CLASSES, LR, RHO = 20, 10, 0.01, 0.9


@dataclass(frozen=True)
class Setting:
    """The size of a measured round.

    Args:
        parties: K.
        width: Features of a party.
        hidden: Width of its hidden layer.
        out: Width of its embedding.
        batch: B.
        q: Local iterations of everybody.
    """

    parties: int = 4
    width: int = 196
    hidden: int = 32
    out: int = 32
    batch: int = 256
    q: int = 1

    def __str__(self) -> str:
        return f"K={self.parties} {self.width}-{self.hidden}-{self.out} B={self.batch} Q={self.q}"


class Plain:
    """The same arithmetic as one loop in one process, with torch.optim."""

    def __init__(self, setting: Setting) -> None:
        torch.manual_seed(0)
        self.batch, self.q, s = setting.batch, setting.q, setting
        self.bottoms = [
            torch.nn.Sequential(torch.nn.Linear(s.width, s.hidden), torch.nn.ReLU(), torch.nn.Linear(s.hidden, s.out))
            for _ in range(s.parties)
        ]
        self.top = torch.nn.Linear(s.out * s.parties, CLASSES)
        self.loss = torch.nn.CrossEntropyLoss()
        self.x = [torch.randn(s.batch * BATCHES, s.width) for _ in range(s.parties)]
        self.y = torch.randint(0, CLASSES, (s.batch * BATCHES,))
        self.steps = [torch.optim.SGD(m.parameters(), LR, momentum=RHO) for m in [*self.bottoms, self.top]]

    def round(self, index: int) -> None:
        """Run one round."""
        rows = slice((index % BATCHES) * self.batch, (index % BATCHES + 1) * self.batch)
        xs, y = [x[rows] for x in self.x], self.y[rows]
        with torch.no_grad():
            sent = [bottom(x) for bottom, x in zip(self.bottoms, xs, strict=True)]
        frozen = copy.deepcopy(self.top).requires_grad_(False)
        for k, bottom in enumerate(self.bottoms):
            for _ in range(self.q):
                embeddings = [*sent[:k], bottom(xs[k]), *sent[k + 1 :]]
                self._step(k, self.loss(frozen(torch.cat(embeddings, 1)), y))
        for _ in range(self.q):
            self._step(-1, self.loss(self.top(torch.cat(sent, 1)), y))

    def _step(self, k: int, loss: torch.Tensor) -> None:
        self.steps[k].zero_grad()
        loss.backward()
        self.steps[k].step()


class NaiveRay:
    """The obvious Ray version: one actor per party, two barriers a round, the server in the driver."""

    def __init__(self, setting: Setting) -> None:
        import ray

        ray.init(address="local", num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False)
        self.ray, self.batch, self.q = ray, setting.batch, setting.q
        actor = ray.remote(num_cpus=0)(NaiveParty)
        self.actors = [actor.remote(k, setting) for k in range(setting.parties)]
        self.plain = Plain(setting)
        ray.get([a.embed.remote(0) for a in self.actors])

    def round(self, index: int) -> None:
        """Run one round."""
        ray, plain = self.ray, self.plain
        sent = ray.get([a.embed.remote(index) for a in self.actors])
        top = plain.top
        message = ray.put([top.weight.detach().numpy(), top.bias.detach().numpy(), *sent])
        running = [a.local.remote(index, message, self.q) for a in self.actors]
        blocks = [torch.from_numpy(np.array(block)) for block in sent]
        rows = slice((index % BATCHES) * self.batch, (index % BATCHES + 1) * self.batch)
        for _ in range(self.q):
            plain._step(-1, plain.loss(top(torch.cat(blocks, 1)), plain.y[rows]))
        ray.get(running)

    def close(self) -> None:
        """End Ray."""
        self.ray.shutdown()


class NaiveParty:
    """A party of :class:`NaiveRay`."""

    def __init__(self, k: int, setting: Setting) -> None:
        torch.set_num_threads(1)
        self.k, self.plain = k, Plain(setting)

    def _rows(self, index: int) -> slice:
        return slice((index % BATCHES) * self.plain.batch, (index % BATCHES + 1) * self.plain.batch)

    def embed(self, index: int) -> Any:
        """Return the embeddings of a batch."""
        with torch.no_grad():
            return self.plain.bottoms[self.k](self.plain.x[self.k][self._rows(index)]).numpy()

    def local(self, index: int, message: list[Any], q: int) -> float:
        """Run the local iterations of a round."""
        plain, k = self.plain, self.k
        weight, bias, *sent = (torch.from_numpy(np.array(part)) for part in message)
        plain.top.requires_grad_(False)
        plain.top.weight.copy_(weight)
        plain.top.bias.copy_(bias)
        for _ in range(q):
            own = plain.bottoms[k](plain.x[k][self._rows(index)])
            loss = plain.loss(plain.top(torch.cat([*sent[:k], own, *sent[k + 1 :]], 1)), plain.y[self._rows(index)])
            plain._step(k, loss)
        return float(loss)
