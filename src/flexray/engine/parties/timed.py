"""Participants that are timed by a calibration (:mod:`flexray.engine.driver.wall_calibration`)."""

from __future__ import annotations

import platform

from flexray.core.messages import Answer, Order, Turn
from flexray.engine.parties.group import PartyGroup
from flexray.engine.parties.pace import Timer
from flexray.engine.parties.server import Server


class TimedGroup(PartyGroup):
    """Parties that say how long their embeddings take, and answer messages of any size."""

    def embedding_s(self, index: int) -> list[float]:
        """Return the seconds in which each party embeds batch ``index``, which its next round is to use."""
        batch, found = self._batches.batch(index), []
        for party in self.parties:
            timer = Timer()
            party.embed(batch, index)
            found.append(timer.now())
        return found

    def machine(self) -> str:
        """Return the name of the machine."""
        return platform.node()

    def answer(self, reply_bytes: int, message: bytes = b"") -> bytes:
        """Return so many bytes."""
        return bytes(reply_bytes)


class TimedServer(Server):
    """A server that says how long its answer takes in a turn, and sends messages of any size."""

    def answer_s(self, event: int, party: int, turn: int, order: Order, own: Turn) -> tuple[float, Answer]:
        """Return the seconds of an answer, and the answer."""
        timer = Timer()
        answer = self.answer(event, party, turn, order, own)
        return timer.now(), answer

    def machine(self) -> str:
        """Return the name of the machine."""
        return platform.node()

    def message(self, size: int) -> bytes:
        """Return so many bytes."""
        return bytes(size)
