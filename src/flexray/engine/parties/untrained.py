"""Stand-ins for the parties and the server of a run that trains nothing (``learn=false``).

They answer the driver as the real ones do, with the same local iterations, optimizer weights, bytes and staleness; but
what they send has no content. All live in one process.

Shapes: v = number of server parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter

import numpy as np
from typing_extensions import override

from flexray.core.columns import Rows
from flexray.core.messages import Answer, FloatArray, GroupReply, Order, Report, ServerReply, Turn
from flexray.data.base import BoolArray, Split
from flexray.engine.parties.devices import Compute
from flexray.engine.parties.group import PartyGroup
from flexray.engine.parties.labels import BlindServer, LabelHolder
from flexray.engine.parties.party import Party
from flexray.engine.parties.selecting import SelectingBlindServer, SelectingServer
from flexray.engine.parties.selecting_group import SelectingGroup
from flexray.engine.parties.server import Server
from flexray.engine.parties.spec import ParticipantSpec, Shared
from flexray.engine.parties.table import Arrivals
from flexray.models import takes

NOTHING: FloatArray = np.empty((0, 0), np.float32)


class UntrainedGroup(PartyGroup):
    """All parties of a run, without features or models.

    Args:
        specs: The parties, in order.
        shared: What all participants know.
    """

    def __init__(self, specs: Sequence[ParticipantSpec], shared: Shared) -> None:
        self._shared = shared
        self._batches = shared.batches()
        self._widths = _widths(specs, shared)
        self._wires = [shared.wire(k) for k in range(len(specs))] if shared.wires else []
        self._optimizers = [spec.optimizer for spec in specs]
        self._which = list(map(id, self._optimizers))
        self._distinct = {id(optimizer): optimizer for optimizer in self._optimizers}
        self._report_rows = Rows(Report, repeat(0.0), repeat(0.0))
        self._nothing = [None] * len(specs)
        self._itemsize = shared.torch_dtype.itemsize
        self.parties = []
        self._absent: frozenset[int] = frozenset()
        self._samples: Sequence[int] = ()

    @override
    def widths(self) -> tuple[int, ...]:
        return self._widths

    @override
    def connect(self, widths: Sequence[int]) -> int:
        return 0

    @override
    def keep_first(self) -> None:
        pass

    @override
    def embed(self, index: int, absent: Sequence[int] = ()) -> GroupReply:
        self._samples = self._shared.counts(self._batches.batch(index).ids_b)
        self._absent = frozenset(absent)
        return GroupReply()

    embed_again = embed

    @override
    def train(
        self, index: int, orders: Sequence[Order], absent_next: Sequence[int] | None, place: int, server: ServerReply,
        *others: GroupReply,
    ) -> GroupReply:  # fmt: skip
        up = self._up_bytes()
        return self._reports(index, orders, absent_next, up, [server.state_v.nbytes + sum(up)] * len(up))

    @override
    def reuse(
        self, index: int, orders: Sequence[Order], absent_next: Sequence[int] | None, gradients: GroupReply
    ) -> GroupReply:
        return self._reports(index, orders, absent_next, self._up_bytes(), self._block_bytes())

    @override
    def learn(
        self, index: int, orders: Sequence[Order], absent_next: Sequence[int] | None, hands_over: bool
    ) -> GroupReply:
        nothing = [0] * len(orders)
        if hands_over:
            self._samples = self._shared.counts(np.arange(self._shared.outline.sizes["train"]))
        return self._reports(index, orders, absent_next, self._up_bytes() if hands_over else nothing, nothing)

    def drop(
        self, index: int, orders: Sequence[Order], absent_next: Sequence[int] | None, penalty: float,
        kept: Sequence[BoolArray],
    ) -> GroupReply:  # fmt: skip
        """Report a round in which parties drop features."""
        return self.learn(index, orders, absent_next, hands_over=False)

    def _up_bytes(self) -> list[int]:
        """Return the bytes of every party's message of embeddings."""
        if not self._wires:
            return self._block_bytes()
        blocks = zip(self._wires, self._samples, self._widths, strict=True)
        return [wire.nbytes(n, width, self._itemsize) if n else 0 for wire, n, width in blocks]

    def _block_bytes(self) -> list[int]:
        return [n * width * self._itemsize for n, width in zip(self._samples, self._widths, strict=True)]

    def _reports(
        self, index: int, orders: Sequence[Order], absent_next: Sequence[int] | None, up: list[int], down: list[int]
    ) -> GroupReply:
        taus, rates = (list(map(attrgetter(column), orders)) for column in ("tau", "lr"))
        reports = self._report_rows(taus, self._max_weights(taus, rates), self._nothing, self._nothing, up, down)
        for k in self._absent:
            reports[k] = Report(0, 1.0)
        if absent_next is not None:
            self.embed(index + 1, absent_next)
        return GroupReply((), tuple(reports))

    def _max_weights(self, taus: Sequence[int], rates: Sequence[float]) -> list[float]:
        """Return w_bar of every party; most are those of many others."""
        keys = zip(self._which, taus, rates, strict=True)
        known = {key: self._distinct[key[0]].max_weight(*key[1:]) for key in set(keys)}
        return list(map(known.__getitem__, zip(self._which, taus, rates, strict=True)))

    @override
    def first_turn(self, place: int) -> Turn:
        return Turn(NOTHING, Report(0, 1.0))

    @override
    def follow(self, place: int, turn: int, order: Order, answer: Answer) -> Turn:
        return Turn(NOTHING, Report(order.tau, self._optimizers[place].max_weight(order.tau, order.lr)))

    @override
    def embed_split(self, split: Split, mode: str = "eval", as_sent: bool = False) -> GroupReply:
        return GroupReply()


class UntrainedServer(BlindServer):
    """The server, without a model; it knows how many parameters it would have.

    Args:
        shared: What all participants know.
        widths: Embedding width of every party.
    """

    def __init__(self, shared: Shared, widths: Sequence[int]) -> None:
        self._shared, self._widths = shared, tuple(widths)
        size = sum(p.numel() for p in shared.build_head(widths).parameters())
        self._state_v = np.broadcast_to(np.zeros(1, f"float{8 * shared.torch_dtype.itemsize}"), (size,))
        self._arrivals = Arrivals(shared, ())
        self._turn = (0, 0)

    @override
    def start(self) -> ServerReply:
        return ServerReply(self._state_v, Report(0, 1.0))

    @override
    def train(self, index: int, order: Order, *replies: GroupReply) -> ServerReply:
        weight = self._shared.server.optimizer.max_weight(order.tau, order.lr)
        return ServerReply(self._state_v, Report(order.tau, weight))

    def drop(self, index: int, order: Order, penalty: float, *replies: GroupReply) -> ServerReply:
        """Report a round in which the server drops components."""
        return self.train(index, order)

    def kept_of(self, parties: Sequence[int]) -> tuple[BoolArray, ...]:
        """Return nothing: what would be left is not known."""
        return ()

    @override
    def gradients(self, index: int, *replies: GroupReply) -> int:
        return index

    @override
    def gradients_of(self, parties: Sequence[int], index: int) -> GroupReply:
        return GroupReply()

    @override
    def predict_batch(self, index: int, *replies: GroupReply) -> FloatArray:
        return NOTHING

    @override
    def pass_back(self, index: int, grad_bc: FloatArray) -> int:
        return index

    @override
    def predict_turn(self, event: int, party: int, turn: int, own: Turn) -> FloatArray:
        self._turn = party, turn
        return NOTHING

    @override
    def answer_along(self, event: int, order: Order, grad_bc: FloatArray) -> Answer:
        return self.answer(event, *self._turn, order, Turn(NOTHING, Report(0, 1.0)))

    @override
    def fill(self, *replies: GroupReply) -> None:
        self._arrivals = Arrivals(self._shared, self._widths)

    @override
    def answer(self, event: int, party: int, turn: int, order: Order, own: Turn) -> Answer:
        ids_b, staleness = self._arrivals.note(event, party, turn)
        width, itemsize, samples = self._widths[party], self._state_v.itemsize, self._shared.count(party, ids_b.numpy())
        up = self._shared.wire(party).nbytes(samples, width, itemsize) if samples else 0
        return Answer(NOTHING, Report(order.tau, 1.0, None, None, up, samples * width * itemsize), staleness)


def _widths(specs: Sequence[ParticipantSpec], shared: Shared) -> tuple[int, ...]:
    """Return the embedding width of every party, from a real one for each kind of model.

    A model that is offered its width has the same in all parties that have it; any other may depend on the features.
    """
    offered = {id(spec.model): takes(spec.model, "out_features") for spec in {id(s.model): s for s in specs}.values()}
    known: dict[str | int, int] = {}
    widths = []
    for spec in specs:
        key = id(spec.model) if offered[id(spec.model)] else spec.name
        if key not in known:
            known[key] = Party(spec, shared).width
        widths.append(known[key])
    return tuple(widths)


class UntrainedHolder(LabelHolder):
    """The party that alone holds the labels, without labels."""

    def __init__(self, shared: Shared, name: str, compute: Compute) -> None:
        self._shared = shared
        self._streams = {None: shared.batches()}
        self._report = Report(0, 1.0)

    @override
    def gradient(self, party: int | None, index: int, prediction_bc: FloatArray) -> FloatArray:
        size = len(self._batch(party, index)) * self._shared.outline.task.num_outputs
        nbytes = size * self._shared.torch_dtype.itemsize
        self._report = Report(0, 1.0, None, None, nbytes, nbytes)
        return NOTHING


def classes_of(shared: Shared) -> tuple[type[PartyGroup], type[Server], type[LabelHolder]]:
    """Return the classes of a run's groups of parties, of its server, and of a party that alone holds the labels."""
    if not shared.learns:
        return UntrainedGroup, UntrainedServer, UntrainedHolder
    if shared.selects:
        return SelectingGroup, SelectingServer if shared.label_party is None else SelectingBlindServer, LabelHolder
    return PartyGroup, Server if shared.label_party is None else BlindServer, LabelHolder
