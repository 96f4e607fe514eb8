"""A party that drops features, and a server that drops components of embeddings (docs/algorithms.md, LESS-VFL).

Shapes: b = samples of a batch, n = training samples, o = embedding width of a party; at the server: of all together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from flexray.core.conforming import as_it_was_saved
from flexray.core.errors import blame
from flexray.core.messages import SERVER, FloatArray, GroupReply, Order, Report, Saved, ServerReply
from flexray.data.base import BoolArray, IdArray
from flexray.data.batches import Batch
from flexray.engine.parties.apart import ApartParty
from flexray.engine.parties.devices import seed_torch
from flexray.engine.parties.labels import BlindServer
from flexray.engine.parties.lasso import Selection
from flexray.engine.parties.server import Server
from flexray.engine.parties.spec import ParticipantSpec, Shared
from flexray.engine.parties.state import fitting, with_more

KEPT, TARGET = "components", "handed_over"
"""Names in what is saved of a participant: the components that are left; embeddings that were handed over."""


class SelectingParty(ApartParty):
    """A party that also drops features, once it knows which components of its embeddings are left."""

    def __init__(self, spec: ParticipantSpec, shared: Shared) -> None:
        super().__init__(spec, shared)
        self._selection = Selection(spec.name, self.model, self.trainer, spec.optimizer)
        self._kept_o: BoolArray | None = None
        self._target_no: FloatArray | None = None
        self._penalty = 0.0

    def expect(self, kept_o: BoolArray, penalty: float) -> None:
        """Take note of the components that are left, and of the group lasso's weight in the next round apart."""
        self._keep(kept_o)
        self._penalty = penalty

    def _keep(self, kept_o: BoolArray) -> None:
        if self._kept_o is None:
            self._selection.leave_out(kept_o)
            self.trainer = self._selection.after()
        self._kept_o = np.array(kept_o)

    @override
    def _learned(self, ids_b: IdArray, order: Order, index: int) -> Report:
        """Take proximal steps towards the embeddings that were handed over, in the components that are left."""
        if self._kept_o is None:
            return super()._learned(ids_b, order, index)
        if self._target_no is None:  # it missed the handover
            self._target_no = self._last_sent()
        kept_o = self._compute.put(torch.from_numpy(np.flatnonzero(self._kept_o)))
        target_bo = self._compute.tensor(self._target_no[ids_b]).index_select(1, kept_o)

        def loss() -> Tensor:
            far_bo = self._embedding().index_select(1, kept_o) - target_bo
            return far_bo.square().sum() / max(1, far_bo.numel())

        with blame(self.name, f"round {index + 1}"):
            seed_torch(self._seed, self.index, "train", index)
            trainer = self._selection.dropping(self._penalty)
            return trainer.run(trainer.descent(loss), order)._replace(loss=None)

    @override
    def _hand_over(self) -> int:
        size = super()._hand_over()
        self._target_no = self._last_sent()
        return size

    def _last_sent(self) -> FloatArray:
        """Return what arrived last of all training samples [n, o]; in rounds apart what is embedded is not sent."""
        return self.stored(Batch(np.arange(self._shared.outline.sizes["train"]), 0))

    def message(self, block_bo: FloatArray) -> FloatArray:
        """Return what is sent of embeddings, or of the gradient with respect to them."""
        return block_bo if self._kept_o is None else block_bo[:, self._kept_o]

    @override
    def _send(self, message_bo: FloatArray, *stream: int | str) -> FloatArray:
        if self._kept_o is None:
            return super()._send(message_bo, *stream)
        arrived_bo = np.zeros_like(message_bo)
        arrived_bo[:, self._kept_o] = super()._send(self.message(message_bo), *stream)
        return arrived_bo

    @override
    def save(self) -> Saved:
        more = {KEPT: self._kept_o, TARGET: self._target_no}
        return with_more(super().save(), {key: value for key, value in more.items() if value is not None})

    @override
    def load(self, saved: Saved) -> None:
        if KEPT in saved.arrays:
            self._keep(_kept(saved, self.width))
        if TARGET in saved.arrays:
            self._target_no = fitting(saved, TARGET, (self._shared.outline.sizes["train"], self.width))
        super().load(saved)


def _kept(saved: Saved, width: int) -> BoolArray:
    kept_o = saved.arrays[KEPT]
    if kept_o.shape != (width,) or kept_o.dtype != np.bool_:
        raise ValueError(f"{KEPT}: expected {width} truth values, got {kept_o.dtype} of shape {kept_o.shape}")
    return kept_o


class SelectingServer(Server):
    """A server that also drops components of the embeddings that were handed over."""

    def __init__(self, shared: Shared, widths: Sequence[int]) -> None:
        super().__init__(shared, widths)
        self._selection = Selection(SERVER, self.head, self._trainer, shared.server.optimizer)
        self._kept_o: Tensor | None = None

    def drop(self, index: int, order: Order, penalty: float, *replies: GroupReply) -> ServerReply:
        """Run round ``index`` as :meth:`Server.train`, by proximal steps; what is dropped may come back in the next."""
        self._kept_o, self._trainer = None, self._selection.dropping(penalty)
        reply = self.train(index, order, *replies)
        self._keep(self._selection.left())
        return reply

    def _keep(self, kept_o: BoolArray) -> None:
        self._kept_o = self._compute.put(torch.from_numpy(np.array(kept_o)))
        self._trainer = self._selection.after()

    def kept_of(self, parties: Sequence[int]) -> tuple[BoolArray, ...]:
        """Return the components of these parties (0-based) that are left."""
        if self._kept_o is None:
            raise RuntimeError(f"{SERVER}: no component was dropped yet")
        kept_o: BoolArray = self._kept_o.cpu().numpy()
        return tuple(kept_o[slice(*self._spans[party])] for party in parties)

    @override
    def _whole(self, embeddings_bo: Tensor, present_bk: Tensor | None) -> Tensor:
        whole_bo = super()._whole(embeddings_bo, present_bk)
        return whole_bo if self._kept_o is None else whole_bo * self._kept_o

    @override
    def save(self) -> Saved:
        return with_more(super().save(), {} if self._kept_o is None else {KEPT: self._kept_o.cpu().numpy()})

    @override
    def load(self, saved: Saved) -> None:
        if KEPT in saved.arrays:
            with as_it_was_saved(SERVER):
                self._keep(_kept(saved, sum(self._widths)))
        super().load(saved)


class SelectingBlindServer(SelectingServer, BlindServer):
    """The same, without labels."""
