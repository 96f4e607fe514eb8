"""One party: its features, its model, its local optimizer (docs/algorithms.md, A global round).

Shapes: b = samples of a batch, n = samples of a split, o = the party's embedding width.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import count
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from flexray.core.conforming import as_it_was_saved
from flexray.core.errors import blame
from flexray.core.links import PLAIN
from flexray.core.messages import FloatArray, Order, Report, Saved, State
from flexray.data.ahead import ReadsAhead, expect
from flexray.data.base import BoolArray, Split
from flexray.data.batches import Batch, BatchStream, chunks
from flexray.engine.parties.devices import ON_CPU, seed_torch
from flexray.engine.parties.last_sent import LastSent
from flexray.engine.parties.missing import StandIn, running_statistics
from flexray.engine.parties.pace import paced
from flexray.engine.parties.phi import Phi
from flexray.engine.parties.probe import check_one_tensor, check_sizes, is_pure, width_of
from flexray.engine.parties.spec import STAND_IN, ParticipantSpec, Shared, check_model
from flexray.engine.parties.state import digest, get_state, load, save, set_state, with_more
from flexray.engine.parties.trainer import Gradients, Trainer, trainable
from flexray.models import build_module, takes

Inputs = tuple[Tensor, ...]
"""What a model is called with: one tensor, or several such as padded sequences and their lengths; b comes first."""

FITTED = "features."
"""Prefix of what features were fitted to, in a party's state."""


class Party:
    """Holds features that never leave it; embeds and trains on request.

    Args:
        spec: This party.
        shared: What all participants know.
    """

    def __init__(self, spec: ParticipantSpec, shared: Shared) -> None:
        self.name, self.index = spec.name, spec.index
        self._seed, self._dtype = shared.seed, shared.torch_dtype
        with blame(self.name, "loading its data"):
            self.features = shared.features(spec)
            check_sizes(self.name, self.features, shared.outline.sizes)
        self.reads_ahead = isinstance(self.features["train"], ReadsAhead)  # asked once: protocols are slow
        shape = self.features["train"].sample_shape
        with blame(self.name, "construction"):
            seed_torch(shared.seed, self.index, "init")
            self.model = build_module(
                spec.model,
                self.name,
                in_features=int(np.prod(shape)),
                in_shape=shape,
                out_features=shared.embedding_width,
                **getattr(self.features["train"], "offers", {}),
            )
            self._compute = spec.compute
            self._compute.place(self.model.to(shared.torch_dtype), pictures=len(shape) == 3)
            self._call = self._compute.forward(self.model)
        self.flattens = takes(spec.model, "in_features") and not takes(spec.model, "in_shape")
        self._wire = shared.wire(self.index - 1)
        self._feedback = shared.error_feedback and self._wire != PLAIN
        self.last: LastSent | None = None
        self._edits_input = False
        self._is_pure = False
        self.width = self._probe(spec, shared)
        self._shared, self._lacks = shared, shared.lacks(self.index - 1)
        self.stand_in = StandIn(shared.stands_in, self.width, shared.torch_dtype)
        self._has_b: BoolArray | None = None
        self._nothing: FloatArray = torch.empty(0, self.width, dtype=self._dtype).numpy()
        self._trains = not spec.frozen
        self.model.train(self._trains)
        self.trainer = Trainer(trainable(self.model), spec.optimizer, shared.outline.task, spec.clip_norm)
        self._batch: Inputs = ()
        self._sent: Tensor | None = None

    def _probe(self, spec: ParticipantSpec, shared: Shared) -> int:
        """Return the embedding width, from a forward pass on two samples; also see what the pass changes."""
        ids = np.arange(len(self.features["train"]))
        ids = ids[shared.has(self.index - 1, ids)][:2]
        size = len(ids)
        with blame(self.name, "a first forward pass"), torch.no_grad():
            seed_torch(self._seed, self.index, "probe")
            x = self._load("train", Batch(ids, 0))
            if self.flattens:
                check_one_tensor(self.name, self.model, len(x))
            check_model(spec, self.model, x, shared)
            versions = [tensor._version for tensor in x]
            embedding = self.model.eval()(*x)
            self._is_pure = is_pure(self.model)
            edited = versions != [tensor._version for tensor in x]
            self._edits_input = edited or not self._is_pure  # in train mode, for all we know
        return width_of(self.name, embedding, size, self._dtype if self._call is self.model else None)

    def _load(self, split: Split, batch: Batch) -> Inputs:
        x = self.features[split].batch(batch.ids_b, batch.epoch)
        if isinstance(x, tuple):
            return self._compute.put(x)
        return (self._compute.put(x.flatten(1) if self.flattens else x),)

    def _forward(self, x: Inputs) -> Tensor:
        alone = self._lacks and len(x[0]) == 1
        with running_statistics(self.model) if alone else nullcontext():
            embedding_bo: Tensor = self._call(*((tensor.clone() for tensor in x) if self._edits_input else x))
        expected = (len(x[0]), self.width)
        if embedding_bo.shape != expected:
            raise ValueError(f"its model returned shape {tuple(embedding_bo.shape)}, expected {expected}")
        if embedding_bo.dtype != self._dtype:
            raise ValueError(f"its model returned {embedding_bo.dtype}, expected {self._dtype}")
        return embedding_bo

    def look_ahead(self, stream: BatchStream, index: int) -> None:
        """Let features that read ahead start on batch ``index`` of a stream and those after it."""
        if self.reads_ahead:
            parts = (self._own(stream.batch(i))[0] for i in count(index))
            expect(self.features["train"], (part for part in parts if len(part.ids_b)))

    def _own(self, batch: Batch) -> tuple[Batch, BoolArray | None]:
        """Return the part of a batch that the party has, and which that is; None: all of every batch."""
        if not self._lacks:
            return batch, None
        has_b = self._shared.has(self.index - 1, batch.ids_b)
        return Batch(batch.ids_b[has_b], batch.epoch), has_b

    def _completed(self, own_co: FloatArray, has_b: BoolArray | None) -> FloatArray:
        return own_co if has_b is None else self.stand_in.completed(own_co, has_b)

    def embed(self, batch: Batch, index: int) -> FloatArray:
        """Load a batch, keep it for :meth:`train`, and return its embeddings [b, o] (train mode, no gradient).

        The first local iteration computes them once more, with the same parameters. Where that gives the very same
        numbers, the graph of this pass is kept for it. Batch normalization is not among that: its running statistics,
        which only evaluations use, follow this pass and every local iteration. Samples that the party does not have are
        left out of both, and something stands in (:mod:`flexray.engine.parties.missing`).
        """
        with blame(self.name, f"round {index + 1}"), torch.set_grad_enabled(self._is_pure):
            seed_torch(self._seed, self.index, "embed", index)
            own, self._has_b = self._own(batch)
            if not len(own.ids_b):
                return self._completed(self._nothing, self._has_b)
            self._batch = self._load("train", own)
            embedding_bo = self._forward(self._batch)
            self._sent = embedding_bo if self._is_pure else None
            arrived_bo = self.sends(embedding_bo.detach().cpu().numpy(), own, index)
            return self._completed(arrived_bo, self._has_b)

    def sends(self, block_bo: FloatArray, batch: Batch, index: int) -> FloatArray:
        """Return what arrives of the embeddings of a batch, that of round or turn ``index``."""

        def wire(message_bo: FloatArray) -> FloatArray:
            return self._send(message_bo, index)

        arrived_bo = wire(block_bo) if self.last is None else self.last.send(batch.ids_b, block_bo, wire)
        self.stand_in.note(arrived_bo)
        return arrived_bo

    def _send(self, message_bo: FloatArray, *stream: int | str) -> FloatArray:
        """Return what arrives of a message; ``stream`` names what is drawn on its way."""
        return self._wire.send(message_bo, self._seed, self.index, *stream)

    def store_last(self, embeddings_no: FloatArray) -> None:
        """Store from now on what arrives of every training sample; these arrived before."""
        self.last = LastSent(embeddings_no, self._feedback)

    def stored(self, batch: Batch) -> FloatArray:
        """Return what arrived last of a batch's samples, where that is stored."""
        if self.last is None:
            raise RuntimeError(f"{self.name}: nothing was stored of its samples")
        own, has_b = self._own(batch)
        return self._completed(self.last.of(own.ids_b), has_b)

    @property
    def computes_plainly(self) -> bool:
        """Whether it trains on the CPU, on all samples, and embeds by nothing but features and parameters."""
        return self._is_pure and self._trains and self._compute == ON_CPU and not self._lacks

    def train(self, phi: Phi, labels_b: Tensor, order: Order, index: int) -> Report:
        """Run the local iterations of a round on the batch that was embedded last."""
        if self._has_none:
            return self._idle(order)
        with blame(self.name, f"round {index + 1}"):
            seed_torch(self._seed, self.index, "train", index)
            predict = self._compute.forward(phi.predictor(self.index - 1))
            return self._run(self.trainer.down(lambda: predict(self._block(phi)), labels_b), order)

    @property
    def _has_none(self) -> bool:
        return self._has_b is not None and not self._has_b.any()

    def _idle(self, order: Order) -> Report:
        """Return the report of a round in which it had nothing to train on, so that nothing changed."""
        return Report(order.tau, self.trainer.optimizer.max_weight(order.tau, order.lr))

    def _block(self, phi: Phi) -> Tensor:
        """Return the batch's embeddings under the current parameters, beside what stands in for missing ones."""
        if self._has_b is None:
            return self._embedding()
        rows = self._compute.put(torch.from_numpy(np.flatnonzero(self._has_b)))
        return phi.block(self.index - 1).index_copy(0, rows, self._embedding())

    def _run(self, gradients: Gradients, order: Order) -> Report:
        run = self.trainer.run if order.pace is None else paced(self.trainer, order.pace)
        return run(gradients, order)

    def _embedding(self) -> Tensor:
        """Return the batch's embeddings under the current parameters, with their graph."""
        sent, self._sent = self._sent, None
        return self._forward(self._batch) if sent is None else sent

    def follow(self, grad_bo: FloatArray, order: Order, index: int, kind: Literal["turn", "round"]) -> Report:
        """Take local iterations along the server's gradient with respect to the embeddings that were sent.

        In a turn of VAFL it is one; in a round, where labels are at the server, the gradient is used for all of them.
        The loss is not known here.
        """
        if self._has_none:
            return self._idle(order)
        grad = self._compute.tensor(np.array(grad_bo if self._has_b is None else grad_bo[self._has_b]))
        with blame(self.name, f"{kind} {index + 1}"):
            seed_torch(self._seed, self.index, "embed", index)  # the same dropout as the embeddings that were sent
            return self._run(self.trainer.along(self._embedding, grad), order)._replace(loss=None)

    def embed_split(
        self, split: Split, chunk: int, mode: Literal["train", "eval"] = "eval", as_sent: bool = False
    ) -> FloatArray:
        """Return the embeddings [n, o] of a whole split, in evaluation mode by default.

        Those of train mode are sent; those of evaluation mode only if wanted ``as_sent``: clipped, noisy, compressed.
        """
        ids_n = np.arange(len(self.features[split]))
        has_n = self._shared.has(self.index - 1, ids_n, split) if self._shared.lacks(self.index - 1, split) else None
        ids_n = ids_n if has_n is None else ids_n[has_n]
        if has_n is not None and not len(ids_n):
            return self._completed(self._nothing, has_n)
        with blame(self.name, f"embedding the {split} samples"), torch.no_grad():
            seed_torch(self._seed, self.index, "split", split)
            self.model.train(mode == "train" and self._trains)
            batches = [Batch(ids, 0) for ids in chunks(ids_n, chunk)]
            parts = []
            for place, batch in enumerate(batches):
                expect(self.features[split], batches[place:])
                parts.append(self._forward(self._load(split, batch)))
            self.model.train(self._trains)
            block_no: FloatArray = torch.cat(parts).cpu().numpy()
            if mode == "train":
                block_no = self._send(block_no, mode)
                self.stand_in.note(block_no)
            elif as_sent:
                block_no = self._send(block_no, mode, split)
            return self._completed(block_no, has_n)

    def digest(self) -> str:
        """Return the digest of the model."""
        return digest(self.model)

    def get_state(self) -> State:
        """Return copies of the model's parameters and buffers, and what the features were fitted to.

        Also what stands in for its embeddings, where that is remembered.
        """
        return {**get_state(self.model), **self._fitted(), **self.stand_in.save()}

    def _fitted(self) -> State:
        fitted = getattr(self.features["train"], "fitted", {})
        return {FITTED + key: np.array(value) for key, value in fitted.items()}

    def set_state(self, state: State) -> None:
        """Load what :meth:`get_state` returned."""
        self._sent = None
        own = {key: value for key, value in state.items() if not key.startswith(FITTED) and key != STAND_IN}
        set_state(self.model, own, self.name)
        with as_it_was_saved(self.name):
            self.stand_in.load(state)

    def save(self) -> Saved:
        """Return all state that outlives a round, and what the features were fitted to."""
        return with_more(save(self.model, self.trainer, self.name), {**self._fitted(), **self.stand_in.save()})

    def load(self, saved: Saved) -> None:
        """Go on from what :meth:`save` returned."""
        self._sent = None
        load(saved, self.model, self.trainer, self.name)
        self.stand_in.load(saved.arrays)

    def take(self, batch: Batch) -> Tensor:
        """Load what it has of a batch and return the first of its tensors; that is embedded elsewhere."""
        own, self._has_b = self._own(batch)
        self._batch, self._sent = self._load("train", own) if len(own.ids_b) else (torch.empty(0),), None
        return self._batch[0]
