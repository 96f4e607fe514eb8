"""One party: its features, its model, its local optimizer (docs/algorithms.md, A global round).

Shapes: b = samples of a batch, n = samples of a split, o = the party's embedding width.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from flexray.core.errors import ConfigError, DataError, ParticipantError, blame
from flexray.core.links import PLAIN
from flexray.core.messages import FloatArray, Order, Report, Saved, State
from flexray.data.ahead import ReadsAhead, expect
from flexray.data.base import SPLITS, Features, IdArray, Split
from flexray.data.batches import Batch, BatchStream
from flexray.engine.parties.devices import ON_CPU, seed_torch
from flexray.engine.parties.last_sent import LastSent
from flexray.engine.parties.pace import paced
from flexray.engine.parties.phi import Phi
from flexray.engine.parties.spec import ParticipantSpec, Shared, check_model
from flexray.engine.parties.state import digest, get_state, load, save, set_state, with_more
from flexray.engine.parties.trainer import Gradients, Trainer, trainable
from flexray.models import CNN, MLP, Linear, build_module, takes

Inputs = tuple[Tensor, ...]
"""What a model is called with: one tensor, or several such as padded sequences and their lengths; b comes first."""

FITTED = "features."
"""Prefix of what features were fitted to, in a party's state."""

PURE = frozenset({
    MLP, Linear, CNN, nn.Sequential, nn.Linear, nn.Conv2d, nn.MaxPool2d, nn.Flatten, nn.Identity, nn.LayerNorm,
    nn.ReLU, nn.Tanh, nn.GELU, nn.Sigmoid,
})  # fmt: skip
"""Modules whose forward pass in train mode depends on nothing but its input and parameters."""


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
            self._features = shared.dataset.features(spec.index - 1, shared.torch_dtype)
            check_sizes(self.name, self._features, shared.outline.sizes)
        self._reads_ahead = isinstance(self._features["train"], ReadsAhead)  # asked once: protocols are slow
        shape = self._features["train"].sample_shape
        with blame(self.name, "construction"):
            seed_torch(shared.seed, self.index, "init")
            self.model = build_module(
                spec.model,
                self.name,
                in_features=int(np.prod(shape)),
                in_shape=shape,
                out_features=shared.embedding_width,
                **getattr(self._features["train"], "offers", {}),
            )
            self._compute = spec.compute
            self._compute.place(self.model.to(shared.torch_dtype), pictures=len(shape) == 3)
            self._call = self._compute.forward(self.model)
        self.flattens = takes(spec.model, "in_features") and not takes(spec.model, "in_shape")
        self._wire = shared.wire(self.index - 1)
        self._changes = self._wire != PLAIN
        self._feedback = shared.error_feedback and self._changes
        self.last: LastSent | None = None
        self._edits_input = False
        self._is_pure = False
        self.width = self._probe(spec, shared)
        self._trains = not spec.frozen
        self.model.train(self._trains)
        self.trainer = Trainer(trainable(self.model), spec.optimizer, shared.outline.task, spec.clip_norm)
        self._batch: Inputs = ()
        self._sent: Tensor | None = None

    def _probe(self, spec: ParticipantSpec, shared: Shared) -> int:
        """Return the embedding width, from a forward pass on two samples; also see what the pass changes."""
        size = min(2, len(self._features["train"]))
        with blame(self.name, "a first forward pass"), torch.no_grad():
            seed_torch(self._seed, self.index, "probe")
            x = self._load("train", Batch(np.arange(size), 0))
            if self.flattens and len(x) > 1:
                kind = type(self.model).__name__
                raise ConfigError(
                    f"{self.name}: {kind} takes one vector a sample, and its data has {len(x)} tensors (such as a"
                    f" sequence and its lengths); expected parties.{self.name}.model=lstm, or a model of your own whose"
                    f" forward takes {len(x)} arguments and which has no in_features"
                )
            check_model(spec, self.model, x, shared)
            versions = [tensor._version for tensor in x]
            embedding = self.model.eval()(*x)
            self._is_pure = is_pure(self.model)
            edited = versions != [tensor._version for tensor in x]
            self._edits_input = edited or not self._is_pure  # in train mode, for all we know
        return self._width_of(embedding, size)

    def _width_of(self, embedding: Any, size: int) -> int:
        """Return the width of embeddings of ``size`` samples; refuse what is none."""
        if not isinstance(embedding, Tensor) or embedding.ndim != 2 or len(embedding) != size:
            found = tuple(embedding.shape) if isinstance(embedding, Tensor) else type(embedding).__name__
            expected = f"a tensor of shape ({size}, width)"
        elif self._call is self.model and embedding.dtype != self._dtype:  # in bf16 all become float32
            found, expected = f"{embedding.dtype} in evaluation", str(self._dtype)
        else:
            return int(embedding.shape[1])
        raise ParticipantError(self.name, "a first forward pass", f"its model returned {found}, expected {expected}")

    def _load(self, split: Split, batch: Batch) -> Inputs:
        x = self._features[split].batch(batch.ids_b, batch.epoch)
        if isinstance(x, tuple):
            return self._compute.put(x)
        return (self._compute.put(x.flatten(1) if self.flattens else x),)

    def _forward(self, x: Inputs) -> Tensor:
        embedding_bo: Tensor = self._call(*((tensor.clone() for tensor in x) if self._edits_input else x))
        expected = (len(x[0]), self.width)
        if embedding_bo.shape != expected:
            raise ValueError(f"its model returned shape {tuple(embedding_bo.shape)}, expected {expected}")
        if embedding_bo.dtype != self._dtype:
            raise ValueError(f"its model returned {embedding_bo.dtype}, expected {self._dtype}")
        return embedding_bo

    def look_ahead(self, stream: BatchStream, index: int) -> None:
        """Let features that read ahead start on batch ``index`` of a stream and those after it."""
        if self._reads_ahead:
            expect(self._features["train"], (stream.batch(i) for i in count(index)))

    def embed(self, batch: Batch, index: int) -> FloatArray:
        """Load a batch, keep it for :meth:`train`, and return its embeddings [b, o] (train mode, no gradient).

        The first local iteration computes them once more, with the same parameters. Where that gives the very same
        numbers, the graph of this pass is kept for it. Batch normalization is not among that: its running statistics,
        which only evaluations use, follow this pass and every local iteration.
        """
        with blame(self.name, f"round {index + 1}"), torch.set_grad_enabled(self._is_pure):
            seed_torch(self._seed, self.index, "embed", index)
            self._batch = self._load("train", batch)
            embedding_bo = self._forward(self._batch)
            self._sent = embedding_bo if self._is_pure else None
            return self.sends(embedding_bo.detach().cpu().numpy(), batch, index)

    def sends(self, block_bo: FloatArray, batch: Batch, index: int) -> FloatArray:
        """Return what arrives of the embeddings of a batch, that of round or turn ``index``."""
        if self.last is None and not self._changes:
            return block_bo

        def wire(message_bo: FloatArray) -> FloatArray:
            return self._wire.send(message_bo, self._seed, self.index, index)

        return wire(block_bo) if self.last is None else self.last.send(batch.ids_b, block_bo, wire)

    def store_last(self, embeddings_no: FloatArray) -> None:
        """Store from now on what arrives of every training sample; these arrived before."""
        self.last = LastSent(embeddings_no, self._feedback)

    def stored(self, batch: Batch) -> FloatArray:
        """Return what arrived last of a batch's samples, where that is stored."""
        if self.last is None:
            raise RuntimeError(f"{self.name}: nothing was stored of its samples")
        return self.last.of(batch.ids_b)

    def features(self, split: Split) -> Features:
        """Return the features of a split."""
        return self._features[split]

    @property
    def reads_ahead(self) -> bool:
        """Whether its features are loaded ahead."""
        return self._reads_ahead

    @property
    def computes_plainly(self) -> bool:
        """Whether it trains on the CPU, and its embeddings depend on nothing but features and parameters."""
        return self._is_pure and self._trains and self._compute == ON_CPU

    def train(self, phi: Phi, labels_b: Tensor, order: Order, index: int) -> Report:
        """Run the local iterations of a round on the batch that was embedded last."""
        with blame(self.name, f"round {index + 1}"):
            seed_torch(self._seed, self.index, "train", index)
            predict = self._compute.forward(phi.predictor(self.index - 1))
            return self._run(self.trainer.down(lambda: predict(self._embedding()), labels_b), order)

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
        grad = self._compute.tensor(np.array(grad_bo))
        with blame(self.name, f"{kind} {index + 1}"):
            seed_torch(self._seed, self.index, "embed", index)  # the same dropout as the embeddings that were sent
            return self._run(self.trainer.along(self._embedding, grad), order)._replace(loss=None)

    def embed_split(
        self, split: Split, chunk: int, mode: Literal["train", "eval"] = "eval", as_sent: bool = False
    ) -> FloatArray:
        """Return the embeddings [n, o] of a whole split, in evaluation mode by default.

        Those of train mode are sent; those of evaluation mode only if wanted ``as_sent``: clipped, noisy, compressed.
        """
        ids_n = np.arange(len(self._features[split]))
        with blame(self.name, f"embedding the {split} samples"), torch.no_grad():
            seed_torch(self._seed, self.index, "split", split)
            self.model.train(mode == "train" and self._trains)
            batches = [Batch(ids, 0) for ids in chunks(ids_n, chunk)]
            parts = []
            for place, batch in enumerate(batches):
                expect(self._features[split], batches[place:])
                parts.append(self._forward(self._load(split, batch)))
            self.model.train(self._trains)
            block_no: FloatArray = torch.cat(parts).cpu().numpy()
            if mode == "train":
                return self._wire.send(block_no, self._seed, self.index, mode)
            return self.sends_split(block_no, split) if as_sent else block_no

    def sends_split(self, block_no: FloatArray, split: Split) -> FloatArray:
        """Return what would arrive of the embeddings [n, o] of a whole split in evaluation mode."""
        return self._wire.send(block_no, self._seed, self.index, "eval", split)

    def digest(self) -> str:
        """Return the digest of the model."""
        return digest(self.model)

    def get_state(self) -> State:
        """Return copies of the model's parameters and buffers, and what the features were fitted to."""
        return {**get_state(self.model), **self._fitted()}

    def _fitted(self) -> State:
        fitted = getattr(self._features["train"], "fitted", {})
        return {FITTED + key: np.array(value) for key, value in fitted.items()}

    def set_state(self, state: State) -> None:
        """Load what :meth:`get_state` returned."""
        self._sent = None
        own = {key: value for key, value in state.items() if not key.startswith(FITTED)}
        set_state(self.model, own, self.name)

    def save(self) -> Saved:
        """Return all state that outlives a round, and what the features were fitted to."""
        return with_more(save(self.model, self.trainer, self.name), self._fitted())

    def load(self, saved: Saved) -> None:
        """Go on from what :meth:`save` returned."""
        self._sent = None
        load(saved, self.model, self.trainer, self.name)

    def take(self, batch: Batch) -> Tensor:
        """Load a batch and return the first of its tensors; it is embedded elsewhere."""
        self._batch, self._sent = self._load("train", batch), None
        return self._batch[0]


def check_sizes(party: str, features: Mapping[Split, Features], sizes: Mapping[Split, int]) -> None:
    """Refuse features of a party that have more or fewer rows than the outline says."""
    for split in SPLITS:
        found = len(features[split]) if split in features else 0
        if found != sizes[split]:
            raise DataError(f"party '{party}': {split} has {found} rows, expected {sizes[split]}")


def chunks(ids_n: IdArray, size: int) -> list[IdArray]:
    """Cut ``ids_n`` into pieces of ``size``; a last piece of one sample joins the one before."""
    cuts = list(range(size, len(ids_n), size))
    if cuts and len(ids_n) - cuts[-1] == 1:
        cuts.pop()
    return np.split(ids_n, cuts)


def is_pure(model: nn.Module) -> bool:
    """Whether two passes in train mode give the same numbers: only modules known to draw and keep nothing."""
    return all(type(module) in PURE for module in model.modules())
