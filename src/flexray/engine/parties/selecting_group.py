"""The parties of one host that drop features (docs/algorithms.md, LESS-VFL).

Shapes: b = samples of a batch, o = embedding width of a party.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from typing_extensions import override

from flexray.core.messages import FloatArray, GroupReply, Order
from flexray.data.base import BoolArray
from flexray.engine.parties.group import PartyGroup
from flexray.engine.parties.selecting import SelectingParty


class SelectingGroup(PartyGroup):
    """As other groups, and each party sends the components of its embeddings that are left."""

    @property
    def _members(self) -> Sequence[SelectingParty]:
        return cast("list[SelectingParty]", self.parties)

    def drop(
        self, index: int, orders: Sequence[Order], absent_next: Sequence[int] | None, penalty: float,
        kept: Sequence[BoolArray],
    ) -> GroupReply:  # fmt: skip
        """Run round ``index``, in which parties drop features; ``kept``: the components that each has left."""
        for party, kept_o in zip(self._members, kept, strict=True):
            party.expect(kept_o, penalty)
        return self.learn(index, orders, absent_next, hands_over=False)

    @override
    def reuse(
        self, index: int, orders: Sequence[Order], absent_next: Sequence[int] | None, gradients: GroupReply
    ) -> GroupReply:
        shared, ids_b = self._shared, self._ids_b
        up = shared.all_block_bytes(self._numbers, self._messages(self._blocks), ids_b)
        counts = [shared.count(number, ids_b) for number in self._numbers]
        down = [n * grad_bo[0].nbytes for n, grad_bo in zip(counts, self._messages(gradients.blocks), strict=True)]
        reply = super().reuse(index, orders, absent_next, gradients)
        reports = [
            report._replace(up_bytes=own_up, down_bytes=own_down) if report.up_bytes else report  # it was there
            for report, own_up, own_down in zip(reply.reports, up, down, strict=True)
        ]
        return GroupReply(reply.blocks, tuple(reports))

    def _messages(self, blocks: Sequence[FloatArray]) -> list[FloatArray]:
        return [party.message(block_bo) for party, block_bo in zip(self._members, blocks, strict=True)]
