"""Labels that one party alone holds, and a server without labels (docs/algorithms.md, Labels at one party).

In a round, and in a turn of VAFL,

    the server sends its prediction of the batch to the party that holds the labels
    that party answers with the gradient of the loss with respect to the prediction
    the server passes it back through its model: to its own parameters, and to every party's embeddings

so labels never leave their party, which in turn sees neither the server's model nor others' embeddings.

Shapes: b = samples of a batch, n = samples of a split, o = sum of embedding widths, c = outputs.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from flexray.core.errors import blame
from flexray.core.messages import SERVER, SERVER_INDEX, Answer, FloatArray, GroupReply, Order, Report, ServerReply, Turn
from flexray.data.base import Split
from flexray.data.batches import BatchStream
from flexray.engine.parties.devices import Compute, seed_torch
from flexray.engine.parties.server import Server, concatenate
from flexray.engine.parties.spec import Shared
from flexray.engine.parties.table import Mixed
from flexray.engine.parties.trainer import scalar_along


class LabelHolder:
    """The labels, in the process of the party that holds them.

    Args:
        shared: What all participants know.
        name: The party.
        compute: Where its process computes.
    """

    def __init__(self, shared: Shared, name: str, compute: Compute) -> None:
        self._shared, self._name, self._compute = shared, name, compute
        self._task = shared.outline.task
        self._labels = {split: compute.put(y) for split, y in shared.labels(for_server=True).items()}
        self._streams: dict[int | None, BatchStream] = {None: shared.batches()}
        self._report = Report(0, 1.0)

    def gradient(self, party: int | None, index: int, prediction_bc: FloatArray) -> FloatArray:
        """Return the loss's gradient [b, c] with respect to the server's prediction of a batch.

        Args:
            party: VAFL: the party (0-based) that takes its turn; None: a round, of all.
            index: 0-based round, or turn of that party.
            prediction_bc: The prediction.
        """
        with blame(self._name, f"{'round' if party is None else 'turn'} {index + 1}"):
            prediction = self._compute.tensor(np.array(prediction_bc)).requires_grad_()
            loss = self._task.loss_fn(prediction, self._labels["train"][self._batch(party, index)])
            (grad_bc,) = torch.autograd.grad(loss, [prediction])
        value = float(loss.detach())
        up, down = grad_bc.nbytes, prediction.nbytes
        self._report = Report(0, 1.0, value, None if np.isfinite(value) else 0, up, down)
        return np.asarray(grad_bc.cpu().numpy())

    def _batch(self, party: int | None, index: int) -> Tensor:
        if party not in self._streams and party is not None:
            self._streams[party] = self._shared.turns(party + 1)
        return torch.from_numpy(self._streams[party].batch(index).ids_b)

    def report(self) -> Report:
        """Return loss and bytes of the last gradient: what came, the prediction, is ``down``."""
        return self._report

    def evaluate(self, split: Split, prediction_nc: FloatArray) -> dict[str, float]:
        """Return loss and metrics of the server's prediction of a whole split, in evaluation mode."""
        prediction = self._compute.tensor(np.array(prediction_nc))
        return {f"{split}_{key}": value for key, value in self._task.evaluate(prediction, self._labels[split]).items()}


class BlindServer(Server):
    """A server that holds no labels: it follows the gradients that the label holder answers.

    Its local iterations of a round reuse one gradient with respect to its prediction, as the parties' do theirs.
    """

    _asked: Mixed

    @override
    def _load_labels(self) -> dict[str, Tensor]:
        self._input_bo = self._output_bc = self._top_bc = torch.empty(0)
        return {}

    def predict_batch(self, index: int, *replies: GroupReply) -> FloatArray:
        """Return the prediction [b, c] of round ``index``, before the server's local iterations."""
        self._input_bo = self._compute.put(concatenate(replies)).requires_grad_()
        with blame(SERVER, f"round {index + 1}"):
            seed_torch(self._shared.seed, SERVER_INDEX, "train", index)
            self._output_bc = self._forward(self._input_bo, self._present(self._batches.batch(index).ids_b))
        return self._sent()

    def _sent(self) -> FloatArray:
        return np.asarray(self._output_bc.detach().cpu().numpy())

    def pass_back(self, index: int, grad_bc: FloatArray) -> int:
        """Take the gradient with respect to the prediction of round ``index`` back to the embeddings; return that."""
        self._top_bc = self._compute.tensor(np.array(grad_bc))
        with blame(SERVER, f"round {index + 1}"):
            scalar = scalar_along(self._output_bc, self._top_bc)
            (grad_bo,) = torch.autograd.grad(scalar, [self._input_bo], allow_unused=True, materialize_grads=True)
        self._grad_bo = grad_bo.cpu().numpy()
        return index

    @override
    def train(self, index: int, order: Order, *replies: GroupReply) -> ServerReply:
        embeddings_bo = self._compute.put(concatenate(replies))
        with blame(SERVER, f"round {index + 1}"):
            seed_torch(self._shared.seed, SERVER_INDEX, "train", index)
            predict = partial(self._forward, embeddings_bo, self._present(self._batches.batch(index).ids_b))
            report = self._run(self._trainer.along(predict, self._top_bc), order)
        return self._reply(report._replace(loss=None))

    def predict_turn(self, event: int, party: int, turn: int, own: Turn) -> FloatArray:
        """VAFL: return the prediction [b, c] of a party's batch; arguments as for ``answer``."""
        with blame(SERVER, f"event {event + 1}"):
            self._asked = self._mixed(event, party, turn, own)
            self._output_bc = self._predict_mixed(self._asked)
        return self._sent()

    def answer_along(self, event: int, order: Order, grad_bc: FloatArray) -> Answer:
        """VAFL: step along the gradient with respect to the prediction, and return the party's."""
        asked, top_bc = self._asked, self._compute.tensor(np.array(grad_bc))
        with blame(SERVER, f"event {event + 1}"):
            grad_bo = self._trainer.step_with_input(self._output_bc, asked.own_bo, order, top_bc)
        report = Report(order.tau, 1.0, None, None, asked.up_bytes, asked.down_bytes)
        return Answer(grad_bo.cpu().numpy(), report, asked.staleness)
