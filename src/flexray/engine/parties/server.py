"""The server: the fusion model, and for VAFL the table of last embeddings (docs/algorithms.md, VAFL).

Shapes: b = samples of a batch, n = samples of a split, o = sum of embedding widths, c = outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import cast

import numpy as np
import torch
from torch import Tensor

from flexray.core.conforming import as_it_was_saved
from flexray.core.errors import ParticipantError, blame
from flexray.core.messages import (
    SERVER,
    SERVER_INDEX,
    Answer,
    FloatArray,
    GroupReply,
    Order,
    Report,
    Saved,
    ServerReply,
    State,
    Turn,
)
from flexray.data.base import IdArray, Split
from flexray.engine.parties.devices import ON_CPU, seed_torch
from flexray.engine.parties.missing import with_learned
from flexray.engine.parties.pace import paced
from flexray.engine.parties.rehearsal import lone_learner
from flexray.engine.parties.spec import STAND_IN, Shared, check_model
from flexray.engine.parties.state import digest, fitting, get_state, load, save, set_state, with_more
from flexray.engine.parties.table import Arrivals, Mixed, Table
from flexray.engine.parties.trainer import Gradients, Trainer, trainable
from flexray.models import Laser, sees_missing

TABLE, ARRIVED = "table.embeddings", "table.arrived"
"""Names of VAFL's table in what is saved of a server."""


class Server:
    """Holds theta_0; trains it, evaluates the whole model, and answers parties in VAFL.

    Args:
        shared: What all participants know.
        widths: Embedding width of every party.
    """

    def __init__(self, shared: Shared, widths: Sequence[int]) -> None:
        torch.set_num_threads(shared.threads)
        self._compute = shared.server.compute
        self._compute.prepare(SERVER)
        self._shared = shared
        self._task = shared.outline.task
        self._labels = self._load_labels()
        self._batches, self._widths = shared.batches(), widths
        ends = list(accumulate(widths))
        self._spans = list(zip([0, *ends], ends, strict=False))
        self.head = self._compute.place(shared.build_head(widths))
        self._sees = sees_missing(shared.server.model)
        self._call = self._compute.forward(self.head)
        self._probe(sum(widths))
        spec = shared.server
        self._trainer = Trainer(trainable(self.head), spec.optimizer, self._task, spec.clip_norm)
        self._table = Table(torch.empty(0), Arrivals(shared, ()))
        self._grad_bo: FloatArray = np.empty((0, 0))
        self._learner = None
        if self._compute == ON_CPU and self._labels and not shared.predicts and STAND_IN not in self.head._parameters:
            self._learner = lone_learner(self.head, self._trainer, sum(widths), self._labels["train"], shared)

    def _load_labels(self) -> dict[str, Tensor]:
        """Return the labels of all splits."""
        return {split: self._compute.put(y) for split, y in self._shared.labels(for_server=True).items()}

    def _probe(self, width: int) -> None:
        with blame(SERVER, "a first forward pass"), torch.no_grad():
            seed_torch(self._shared.seed, SERVER_INDEX, "probe")
            x = self._compute.put(torch.zeros(2, width, dtype=self._shared.torch_dtype))
            given = [x, torch.ones(2, len(self._widths), dtype=torch.bool)] if self._sees else [x]
            check_model(self._shared.server, self.head, self._compute.put(tuple(given)), self._shared)
            prediction = self.head.eval()(*self._compute.put(tuple(given)))
            self.head.train()
        expected = (2, self._task.num_outputs)
        found = tuple(prediction.shape) if isinstance(prediction, Tensor) else type(prediction).__name__
        if found != expected:
            raise ParticipantError(SERVER, "a first forward pass", f"its model returned {found}, expected {expected}")

    def _forward(self, embeddings_bo: Tensor, present_bk: Tensor | None = None) -> Tensor:
        whole_bo = self._whole(embeddings_bo, present_bk).clone()  # it may be edited in place
        prediction_bc: Tensor = (
            self._call(whole_bo, self._there(present_bk, whole_bo)) if self._sees else self._call(whole_bo)
        )
        return prediction_bc

    def _there(self, present_bk: Tensor | None, whole_bo: Tensor) -> Tensor:
        return torch.ones_like(whole_bo[:, : len(self._widths)], dtype=torch.bool) if present_bk is None else present_bk

    def _loss(self, embeddings_bo: Tensor, present_bk: Tensor | None, labels_b: Tensor) -> Tensor:
        """Return the loss of a batch: that of its predictions, or the server's model's own."""
        if not self._sees:
            return self._task.loss_fn(self._forward(embeddings_bo, present_bk), labels_b)
        whole_bo = self._whole(embeddings_bo, present_bk).clone()
        own = self._compute.forward(cast("Laser", self.head).loss)
        return own(whole_bo, self._there(present_bk, whole_bo), labels_b, self._task.losses)

    def _whole(self, embeddings_bo: Tensor, present_bk: Tensor | None) -> Tensor:
        return with_learned(embeddings_bo, self.head, present_bk, self._widths)

    def _present(self, ids_b: IdArray, split: Split = "train") -> Tensor | None:
        """Return which of these samples each party has [b, k]; None: each has all."""
        present = self._shared.outline.present
        return None if present is None else self._compute.put(torch.from_numpy(present[split][ids_b]))

    def _batch(self, index: int) -> tuple[Tensor, Tensor | None]:
        """Return the labels [b] of round ``index``, and which of its samples each party has."""
        ids_b = self._batches.batch(index).ids_b
        return self._labels["train"][torch.from_numpy(ids_b)], self._present(ids_b)

    def _reply(self, report: Report) -> ServerReply:
        flat = [p.detach().reshape(-1) for p in self.head.parameters()]
        vector = torch.cat(flat) if flat else torch.empty(0, dtype=self._shared.torch_dtype)
        return ServerReply(vector.cpu().numpy(), report)

    def start(self) -> ServerReply:
        """Return theta_0 before the first round."""
        return self._reply(Report(0, 1.0))

    def train(self, index: int, order: Order, *replies: GroupReply) -> ServerReply:
        """Run the server's local iterations of round ``index`` on the parties' embeddings and return theta_0."""
        embeddings_bo = self._compute.put(concatenate(replies))
        labels_b, present_bk = self._batch(index)
        with blame(SERVER, f"round {index + 1}"):
            seed_torch(self._shared.seed, SERVER_INDEX, "train", index)
            if self._learner is not None and order.pace is None:
                return self._reply(self._learner(embeddings_bo, labels_b, order))
            loss_of = partial(self._loss, embeddings_bo, present_bk, labels_b)
            report = self._run(self._trainer.descent(loss_of), order)
            return self._reply(self._with_loss(report, loss_of))

    def _run(self, gradients: Gradients, order: Order) -> Report:
        run = self._trainer.run if order.pace is None else paced(self._trainer, order.pace)
        return run(gradients, order)

    def gradients(self, index: int, *replies: GroupReply) -> int:
        """Compute the loss's gradient with respect to all embeddings of round ``index``, and return that.

        :meth:`gradients_of` hands it out. It is taken before the server's local iterations, and with the dropout of the
        first of them.
        """
        embeddings_bo = self._compute.put(concatenate(replies)).requires_grad_()
        labels_b, present_bk = self._batch(index)
        with blame(SERVER, f"round {index + 1}"):
            seed_torch(self._shared.seed, SERVER_INDEX, "train", index)
            loss = self._loss(embeddings_bo, present_bk, labels_b)
            (grad_bo,) = torch.autograd.grad(loss, [embeddings_bo], allow_unused=True, materialize_grads=True)
        self._grad_bo = grad_bo.cpu().numpy()
        return index

    def gradients_of(self, parties: Sequence[int], index: int) -> GroupReply:
        """Return the gradients of round ``index`` for these parties (0-based), which nobody else is sent."""
        spans = [self._spans[party] for party in parties]
        return GroupReply(tuple(np.ascontiguousarray(self._grad_bo[:, start:end]) for start, end in spans))

    def _with_loss(self, report: Report, loss_of: Callable[[], Tensor]) -> Report:
        """Add the batch's loss to the report of a server that took no iteration."""
        if report.loss is not None:
            return report
        with torch.no_grad():
            loss = float(loss_of())
        return Report(report.tau, report.max_weight, loss, None if np.isfinite(loss) else 0)

    def fill(self, *replies: GroupReply) -> None:
        """VAFL: take every party's embeddings of all training samples, before time 0."""
        self._fill(concatenate(replies))

    def _fill(self, embeddings_no: Tensor) -> None:
        self._table = Table(embeddings_no, Arrivals(self._shared, self._widths))

    def answer(self, event: int, party: int, turn: int, order: Order, own: Turn) -> Answer:
        """VAFL: combine a party's fresh block with the stored ones, step, and return its gradient.

        Both gradients, for theta_0 and for the embeddings, are taken at the same point: before the step.

        Args:
            event: 0-based event, counted over all parties.
            party: 0-based party that takes its turn.
            turn: How many turns it had before.
            order: The server's order.
            own: The party's embeddings of its own batch.
        """
        with blame(SERVER, f"event {event + 1}"):
            table = self._mixed(event, party, turn, own)
            present_bk, labels_b = self._present(table.ids_b.numpy()), self._labels["train"][table.ids_b]
            loss = self._loss(table.embeddings_bo, present_bk, labels_b)
            grad_bo = self._trainer.step_with_input(loss, table.own_bo, order)
        value = float(loss.detach())
        report = Report(order.tau, 1.0, value, None if np.isfinite(value) else 0, table.up_bytes, table.down_bytes)
        return Answer(grad_bo.cpu().numpy(), report, table.staleness)

    def _predict_mixed(self, mixed: Mixed) -> Tensor:
        return self._forward(mixed.embeddings_bo, self._present(mixed.ids_b.numpy()))

    def _mixed(self, event: int, party: int, turn: int, own: Turn) -> Mixed:
        """VAFL: write a party's fresh block into the table and return it beside the stored ones."""
        start, end = self._spans[party]
        ids_b, staleness = self._table.arrivals.note(event, party, turn)
        self._table.embeddings_no[ids_b, start:end] = torch.from_numpy(np.array(own.block_bo))
        seed_torch(self._shared.seed, SERVER_INDEX, "train", event)
        own_bo = self._compute.put(self._table.embeddings_no[ids_b, start:end]).requires_grad_()
        stored_bo = self._compute.put(self._table.embeddings_no[ids_b])
        embeddings_bo = torch.cat((stored_bo[:, :start], own_bo, stored_bo[:, end:]), dim=1)
        ids = ids_b.numpy()
        up, down = self._shared.block_bytes(party, own.block_bo, ids), self._shared.count(party, ids) * own_bo[0].nbytes
        return Mixed(ids_b, own_bo, embeddings_bo, staleness, up, down)

    def evaluate(self, split: Split, *replies: GroupReply) -> dict[str, float]:
        """Return loss and metrics of a whole split from the parties' embeddings of it."""
        prediction = self._predict(split, replies)
        return {f"{split}_{key}": value for key, value in self._task.evaluate(prediction, self._labels[split]).items()}

    def predict(self, split: Split, *replies: GroupReply) -> FloatArray:
        """Return the prediction [n, c] of a split for the parties' embeddings, in evaluation mode."""
        array: FloatArray = self._predict(split, replies).cpu().numpy()
        return array

    def _predict(self, split: Split, replies: Sequence[GroupReply]) -> Tensor:
        with blame(SERVER, "evaluation"), torch.no_grad():
            self.head.eval()
            chunk, embeddings_no = self._shared.eval_batch, self._compute.put(concatenate(replies))
            ids = np.split(np.arange(len(embeddings_no)), range(chunk, len(embeddings_no), chunk))
            each = zip(torch.split(embeddings_no, chunk), ids, strict=True)
            parts = [self._forward(part, self._present(own, split)) for part, own in each]
            self.head.train()
            return torch.cat(parts)

    def digest(self) -> str:
        """Return the digest of the model."""
        return digest(self.head)

    def get_state(self) -> State:
        """Return copies of the model's parameters and buffers."""
        return get_state(self.head)

    def set_state(self, state: State) -> None:
        """Load what :meth:`get_state` returned."""
        set_state(self.head, state, SERVER)

    def save(self) -> Saved:
        """Return all state that outlives a round; in VAFL also the table."""
        own = save(self.head, self._trainer, SERVER)
        table = self._table
        return with_more(own, {TABLE: table.embeddings_no.numpy(), ARRIVED: table.arrivals.event_nk.numpy()})

    def load(self, saved: Saved) -> None:
        """Go on from what :meth:`save` returned."""
        with as_it_was_saved(SERVER):
            load(saved, self.head, self._trainer, SERVER)
            if not len(saved.arrays[TABLE]):
                return
            rows, parties = self._shared.outline.sizes["train"], len(self._spans)
            self._fill(torch.from_numpy(np.array(fitting(saved, TABLE, (rows, self._spans[-1][1])))))
            self._table.arrivals.event_nk = torch.from_numpy(
                np.array(fitting(saved, ARRIVED, (rows, parties)), dtype=np.int64)
            )


def concatenate(replies: Sequence[GroupReply]) -> Tensor:
    """Return one writable tensor [b, o] with the blocks of all parties side by side."""
    return torch.from_numpy(np.concatenate([block for reply in replies for block in reply.blocks], axis=1))
