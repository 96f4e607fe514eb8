"""The parties that live in one host: one party by default, several when packed, all when inline.

They share the labels, the batch's IDs, a frozen copy of the server's model, and Phi.

Shapes: b = samples of a batch, v = number of server parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from flexray.core.conforming import as_it_was_saved
from flexray.core.errors import RunFolderError
from flexray.core.messages import Answer, FloatArray, GroupReply, Order, Report, Saved, ServerReply, State, Turn
from flexray.data.base import IdArray, Split
from flexray.data.batches import Batch, BatchStream
from flexray.engine.parties.kinds import make_party
from flexray.engine.parties.party import Party
from flexray.engine.parties.phi import Fusion, Phi, as_one_vector
from flexray.engine.parties.rehearsal import stacks
from flexray.engine.parties.spec import ParticipantSpec, Shared, peak_memory_mb
from flexray.engine.parties.splits import Splits
from flexray.engine.parties.stack import Stack
from flexray.engine.parties.state import fitting, under, with_more

HEAD, SENT, LAST = "head.", "sent", "last_sent"
"""Names of arrays in what is saved of a party: buffers of its copy of the server's model; its embeddings of the next
batch, or what stands in for them; its last ones of every sample."""


class PartyGroup:
    """Builds its parties and runs them one after another.

    Args:
        specs: The parties of this host, in order.
        shared: What all participants know.
    """

    def __init__(self, specs: Sequence[ParticipantSpec], shared: Shared) -> None:
        torch.set_num_threads(shared.threads)
        self._shared = shared
        self._compute = specs[0].compute  # one process, one device
        self._compute.prepare(specs[0].name)
        self._knows_labels = shared.labels_at == "all"
        labels = shared.labels() if self._knows_labels else {}
        self._labels = self._compute.put(labels.get("train", torch.empty(0)))
        self.parties = [make_party(spec, shared) for spec in specs]
        self._numbers = [party.index - 1 for party in self.parties]
        self._reading_ahead = [party for party in self.parties if party.reads_ahead]
        self._batches = shared.batches()
        self._labels_b: Tensor = self._labels[:0]
        self._ids_b: IdArray = np.empty(0, np.int64)
        self._blocks: tuple[FloatArray, ...] = ()
        self._fusion = Fusion(nn.Identity(), ())
        self._head_v: Tensor = self._labels_b
        self._turns: dict[int, BatchStream] = {}
        self._sent: dict[int, FloatArray] = {}
        self._absent: frozenset[int] = frozenset()
        self._stacks: list[Stack] = []
        self._alone: Sequence[Party] = self.parties
        self._splits = Splits(self.parties, (), shared)

    def widths(self) -> tuple[int, ...]:
        """Return the embedding width of every party."""
        return tuple(party.width for party in self.parties)

    def connect(self, widths: Sequence[int]) -> int:
        """Build the frozen copy of the server's model, given the embedding widths of all K parties.

        Parties without labels have no use for it.

        Returns:
            The number of parties that share operations with others.
        """
        if self._knows_labels:
            head = self._compute.place(self._shared.build_head(widths)).requires_grad_(False)
            self._head_v = as_one_vector(list(head.parameters()))
            self._fusion = Fusion(head, widths)
        fusion = self._fusion if self._knows_labels else None
        self._stacks = stacks(self.parties, fusion, widths, self._labels, self._shared)
        self._splits = Splits(self.parties, self._stacks, self._shared)
        stacked = {number for stack in self._stacks for number in stack.numbers}
        self._alone = [party for party in self.parties if party.index - 1 not in stacked]
        return sum(len(stack.numbers) for stack in self._stacks if len(stack.numbers) > 1)

    def keep_first(self) -> None:
        """Store first embeddings of all training samples, of parties whose last ones are needed; change no model."""
        for party in self.parties:
            if self._shared.stores_last(party.index - 1):
                state = party.get_state()  # a pass in train mode moves running statistics
                party.store_last(party.embed_split("train", self._shared.eval_batch, "train"))
                party.set_state(state)

    def embed(self, index: int, absent: Sequence[int] = ()) -> GroupReply:
        """Return the embeddings of batch ``index``, the last ones of parties (0-based, of all) that are ``absent``."""
        batch = self._batches.batch(index)
        self._begin(batch, absent)
        for party in self._present(self._reading_ahead):
            party.look_ahead(self._batches, index)
        stacked = (stack.embed(batch, index, self._absent) for stack in self._stacks)
        fresh = {number: block for blocks in stacked for number, block in blocks.items()}
        self._blocks = tuple(self._block(party, batch, index, fresh) for party in self.parties)
        self._sent = dict(enumerate(self._blocks))
        return GroupReply(self._blocks)

    def _begin(self, batch: Batch, absent: Sequence[int]) -> None:
        if self._knows_labels:
            self._labels_b = self._labels.index_select(0, self._compute.put(torch.from_numpy(batch.ids_b)))
        self._ids_b, self._absent = batch.ids_b, frozenset(absent)

    def _present(self, parties: Sequence[Party]) -> list[Party]:
        return [party for party in parties if party.index - 1 not in self._absent]

    def _block(self, party: Party, batch: Batch, index: int, fresh: Mapping[int, FloatArray]) -> FloatArray:
        number = party.index - 1
        if number in self._absent:
            return party.stored(batch)
        return fresh[number] if number in fresh else party.embed(batch, index)

    def train(
        self,
        index: int,
        orders: Sequence[Order],
        absent_next: Sequence[int] | None,
        place: int,
        server: ServerReply,
        *others: GroupReply,
    ) -> GroupReply:
        """Run round ``index`` and embed the next batch.

        Args:
            index: 0-based round.
            orders: Local iterations and learning rate of each party of this group.
            absent_next: Return the embeddings of batch ``index + 1``, in whose round these parties (0-based, of all)
                are absent; None: do not.
            place: This group's place among all groups.
            server: The server's parameters theta_0 at the start of the round.
            others: Embeddings of this batch, of the other groups in order.
        """
        self._compute.fill(self._head_v, server.state_v)
        sent = [reply.blocks for reply in others]
        blocks = [block for part in (*sent[:place], self._blocks, *sent[place:]) for block in part]
        present = self._shared.outline.present
        phi = Phi(self._fusion, blocks, self._compute, None if present is None else present["train"][self._ids_b])
        size = server.state_v.nbytes + sum(self._shared.all_block_bytes(range(len(blocks)), blocks, self._ids_b))
        down_bytes = dict.fromkeys(range(len(blocks)), size)
        return self._round(
            index, orders, absent_next,
            lambda stack, own: stack.train(phi, self._labels_b, own),
            lambda party, order: party.train(phi, self._labels_b, order, index), down_bytes,
        )  # fmt: skip

    def reuse(
        self, index: int, orders: Sequence[Order], absent_next: Sequence[int] | None, gradients: GroupReply
    ) -> GroupReply:
        """Run round ``index`` where labels are elsewhere: along ``gradients``, its own; else as :meth:`train`."""
        grads = {party.index - 1: block for party, block in zip(self.parties, gradients.blocks, strict=True)}
        return self._round(
            index, orders, absent_next,
            lambda stack, own: stack.follow(grads, own),
            lambda party, order: party.follow(grads[party.index - 1], order, index, "round"),
            {k: self._shared.count(k, self._ids_b) * grad_bo[0].nbytes for k, grad_bo in grads.items()},
        )  # fmt: skip

    def learn(
        self, index: int, orders: Sequence[Order], absent_next: Sequence[int] | None, hands_over: bool
    ) -> GroupReply:
        """Run round ``index``, in which parties learn apart, and may then hand over embeddings of all samples."""
        self._sent = {}
        batch = self._batches.batch(index)
        reports = [
            Report(0, 1.0) if party.index - 1 in self._absent else party.learn(batch, order, index, hands_over)
            for party, order in zip(self.parties, orders, strict=True)
        ]
        return GroupReply(() if absent_next is None else self.embed(index + 1, absent_next).blocks, tuple(reports))

    def _round(
        self,
        index: int,
        orders: Sequence[Order],
        absent_next: Sequence[int] | None,
        together: Callable[[Stack, Mapping[int, Order]], Mapping[int, Report]],
        alone: Callable[[Party, Order], Report],
        down_bytes: Mapping[int, int],
    ) -> GroupReply:
        """Run the local iterations of the parties that are there, and embed the next batch unless that is None."""
        self._sent = {}
        up_bytes = self._shared.all_block_bytes(self._numbers, self._blocks, self._ids_b)
        own = {k: order for k, order in zip(self._numbers, orders, strict=True) if k not in self._absent}
        if any(order.pace for order in orders):
            found = {party.index - 1: alone(party, own[party.index - 1]) for party in self._present(self.parties)}
        else:
            found = {k: report for stack in self._stacks for k, report in together(stack, own).items()}
            found |= {party.index - 1: alone(party, own[party.index - 1]) for party in self._present(self._alone)}
        reports = [
            Report(*report[:4], up, down_bytes[k], *report[6:]) if (report := found.get(k)) else Report(0, 1.0)
            for k, up in zip(self._numbers, up_bytes, strict=True)
        ]
        return GroupReply(() if absent_next is None else self.embed(index + 1, absent_next).blocks, tuple(reports))

    def first_turn(self, place: int) -> Turn:
        """VAFL: embed the first batch of party ``place`` of this group."""
        return Turn(self._embed_turn(place, 0), Report(0, 1.0))

    def follow(self, place: int, turn: int, order: Order, answer: Answer) -> Turn:
        """VAFL: let party ``place`` of this group end turn ``turn`` and embed the batch of its next."""
        report = self.parties[place].follow(answer.grad_bo, order, turn, "turn")
        return Turn(self._embed_turn(place, turn + 1), report)

    def _embed_turn(self, place: int, turn: int) -> FloatArray:
        party = self.parties[place]
        if party.index not in self._turns:
            self._turns[party.index] = self._shared.turns(party.index)
        party.look_ahead(self._turns[party.index], turn)
        self._sent[place] = party.embed(self._turns[party.index].batch(turn), turn)
        return self._sent[place]

    def embed_split(self, split: Split, mode: Literal["train", "eval"] = "eval", as_sent: bool = False) -> GroupReply:
        """Return the embeddings of a whole split."""
        return GroupReply(self._splits.embed(split, mode, as_sent))

    def digests(self) -> dict[str, str]:
        """Return the digest of every party's model."""
        return {party.name: party.digest() for party in self.parties}

    def get_states(self) -> dict[str, State]:
        """Return every party's parameters and buffers."""
        return {party.name: party.get_state() for party in self.parties}

    def set_states(self, states: dict[str, State]) -> None:
        """Load what :meth:`get_states` returned, of these parties."""
        for party in self.parties:
            party.set_state(states[party.name])

    def peak_memory_mb(self) -> float | None:
        """Return the peak memory of this group's process in MB."""
        return peak_memory_mb()

    # Checkpoints ------------------------------------------------------------------------------------------------

    def save(self) -> dict[str, Saved]:
        """Return all state of these parties that outlives a round, embeddings of the next batch included."""
        head = {HEAD + key: buffer.cpu().numpy() for key, buffer in self._fusion.head.named_buffers()}
        sent = [{SENT: self._sent[place]} if place in self._sent else {} for place in range(len(self.parties))]
        for party, own in zip(self.parties, sent, strict=True):
            if party.last is not None:
                own[LAST] = party.last.embeddings_no
        return {p.name: with_more(p.save(), {**head, **own}) for p, own in zip(self.parties, sent, strict=True)}

    def load(self, saved: dict[str, Saved]) -> None:
        """Go on from what :meth:`save` returned, of these parties."""
        for place, party in enumerate(self.parties):
            with as_it_was_saved(party.name):
                self._load_one(place, saved[party.name])
        head = under(saved[self.parties[0].name], HEAD)
        with as_it_was_saved(self.parties[0].name):
            for key, buffer in self._fusion.head.named_buffers():
                buffer.copy_(torch.from_numpy(np.array(head[key])))

    def _load_one(self, place: int, saved: Saved) -> None:
        party = self.parties[place]
        party.load(saved)
        if SENT in saved.arrays:
            self._sent[place] = fitting(saved, SENT, (*saved.arrays[SENT].shape[:1], party.width))
        if self._shared.stores_last(party.index - 1):
            party.store_last(fitting(saved, LAST, (self._shared.outline.sizes["train"], party.width)))

    def embed_again(self, index: int, absent: Sequence[int] = ()) -> GroupReply:
        """Return the embeddings of batch ``index`` that were saved, or, if there were none yet, compute them."""
        if not self._sent:
            return self.embed(index, absent)
        batch = self._batches.batch(index)
        self._begin(batch, absent)
        for place in range(len(self.parties)):
            self._check_sent(place, batch)
        for stack in self._stacks:
            stack.take(batch)
        for party in self._present(self._alone):
            party.take(batch)
        self._blocks = tuple(self._sent[place] for place in range(len(self.parties)))
        return GroupReply(self._blocks)

    def turn_again(self, place: int, turn: int) -> Turn:
        """VAFL: return the embeddings of turn ``turn`` of party ``place`` of this group that were saved."""
        party = self.parties[place]
        self._turns[party.index] = self._shared.turns(party.index)
        batch = self._turns[party.index].batch(turn)
        self._check_sent(place, batch)
        party.take(batch)
        return Turn(self._sent[place], Report(0, 1.0))

    def _check_sent(self, place: int, batch: Batch) -> None:
        if place not in self._sent or len(self._sent[place]) != len(batch.ids_b):
            raise RunFolderError(f"{self.parties[place].name}: what is saved of it lacks embeddings of the next batch")
