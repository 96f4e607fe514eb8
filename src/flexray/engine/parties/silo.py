"""A party that is a silo: its samples are divided among clients, which are averaged (docs/algorithms.md, TDCD).

Shapes: b = samples of a batch, n = training samples, o = the party's embedding width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import override

from flexray.core.errors import ConfigError, blame
from flexray.core.messages import FloatArray, Order, Report
from flexray.core.seeds import generator
from flexray.data.batches import Batch
from flexray.engine.parties.apart import ApartParty
from flexray.engine.parties.devices import seed_torch
from flexray.engine.parties.missing import running_statistics
from flexray.engine.parties.party import Inputs
from flexray.engine.parties.phi import Phi
from flexray.engine.parties.spec import ParticipantSpec, Shared
from flexray.engine.parties.trainer import Gradients

Rows = npt.NDArray[np.int64]


def clients_of(seed: int, samples: int, clients: int) -> Rows:
    """Return the client (0-based) of every training sample [n], the same at all parties; equally many each."""
    dealt_n: Rows = generator(seed, "clients").permutation(np.arange(samples) % clients)
    return dealt_n


class SiloParty(ApartParty):
    """A party of clients, each with some of its samples, which train side by side.

    Raises:
        ConfigError: Its optimizer would hand its state from one client to the next.
    """

    def __init__(self, spec: ParticipantSpec, shared: Shared) -> None:
        super().__init__(spec, shared)
        if getattr(spec.optimizer, "keep_state", False):
            raise ConfigError(
                f"optimizer.keep_state: clients of {spec.name} begin every round alike; expected false, got true"
            )
        self._clients = shared.clients
        self._client_n = clients_of(shared.seed, shared.outline.sizes["train"], shared.clients)
        self._client_b: Rows = self._client_n[:0]

    @property
    @override
    def computes_plainly(self) -> bool:
        return False

    @override
    def embed(self, batch: Batch, index: int) -> FloatArray:
        self._client_b = self._client_n[batch.ids_b]
        return super().embed(batch, index)

    @override
    def take(self, batch: Batch) -> Tensor:
        self._client_b = self._client_n[batch.ids_b]
        return super().take(batch)

    @override
    def train(self, phi: Phi, labels_b: Tensor, order: Order, index: int) -> Report:
        def descent(rows_b: Tensor) -> Gradients:
            predict = self._compute.forward(phi.of(rows_b).predictor(self.index - 1))
            return self.trainer.down(lambda: predict(self._embedding()), labels_b.index_select(0, rows_b))

        with blame(self.name, f"round {index + 1}"):
            return self._averaged(descent, order, index)

    @override
    def follow(self, grad_bo: FloatArray, order: Order, index: int, kind: Literal["turn", "round"]) -> Report:
        grad = self._compute.tensor(np.array(grad_bo))

        def descent(rows_b: Tensor) -> Gradients:
            own = grad.index_select(0, rows_b) * (len(grad) / len(rows_b))  # of the mean over the client's samples
            return self.trainer.along(self._embedding, own)

        with blame(self.name, f"{kind} {index + 1}"):
            return self._averaged(descent, order, index)._replace(loss=None)

    @override
    def _forward(self, x: Inputs) -> Tensor:
        with running_statistics(self.model) if len(x[0]) == 1 else nullcontext():  # batch normalization of one sample
            return super()._forward(x)

    def _averaged(self, descent: Callable[[Tensor], Gradients], order: Order, index: int) -> Report:
        """Let every client take the local iterations of a round from the same model, and average their models.

        Args:
            descent: Returns the gradients of a client's samples, from their places in the whole batch.
            order: Local iterations and rate.
            index: 0-based round.
        """
        if self._has_none or not order.tau:
            return self._idle(order)
        seed_torch(self._seed, self.index, "train", index)
        state = [tensor for tensor in self.model.state_dict().values() if tensor.is_floating_point()]
        start, whole, reports = [tensor.clone() for tensor in state], self._batch, []
        sums = [torch.zeros_like(tensor) for tensor in state]
        for mine, rows_b in self._parts():
            with torch.no_grad():
                torch._foreach_copy_(state, start)
            if len(mine):
                self._batch, self._sent = tuple(tensor.index_select(0, mine) for tensor in whole), None
                reports.append(self._run(descent(rows_b), order))
            torch._foreach_add_(sums, state)
        with torch.no_grad():
            torch._foreach_copy_(state, torch._foreach_div(sums, self._clients))
        self._batch = whole
        diverged = [report.diverged_at for report in reports if report.diverged_at is not None]
        return reports[0]._replace(diverged_at=min(diverged, default=None))

    def _parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the samples of each client: their places among those that the party has, and in the whole batch."""
        places_b = np.arange(len(self._client_b)) if self._has_b is None else np.flatnonzero(self._has_b)
        for client in range(self._clients):
            mine = np.flatnonzero(self._client_b[places_b] == client)
            yield self._compute.put(torch.from_numpy(mine)), self._compute.put(torch.from_numpy(places_b[mine]))
