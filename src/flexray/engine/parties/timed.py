"""Participants that are timed by a calibration (:mod:`flexray.engine.driver.wall_calibration`)."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from flexray.core.messages import Answer, Order, Turn
from flexray.engine.parties.group import PartyGroup
from flexray.engine.parties.pace import Clock, Timer
from flexray.engine.parties.server import Server
from flexray.engine.parties.spec import Shared


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
    """A server that says how long its answers in turns take, and sends messages of any size."""

    def __init__(self, shared: Shared, widths: Sequence[int]) -> None:
        super().__init__(shared, widths)
        self._clock = Clock()
        self._answer_s: list[float] = []
        self._between_s: list[float] = []
        self._computed_s: float | None = None

    def answer(self, event: int, party: int, turn: int, order: Order, own: Turn) -> Answer:
        """Answer a turn; note the seconds of the answer, and those of computing since the one before."""
        if self._computed_s is not None:
            self._between_s.append(self._clock.computed() - self._computed_s)
        timer = Timer()
        answer = super().answer(event, party, turn, order, own)
        self._answer_s.append(timer.now())
        self._computed_s = self._clock.computed()
        return answer

    def answer_s(self) -> tuple[list[float], list[float]]:
        """Return the seconds of answers since it was last asked, and of computing between them: their messages."""
        found = self._answer_s, self._between_s
        self._answer_s, self._between_s, self._computed_s = [], [], None
        return found

    def machine(self) -> str:
        """Return the name of the machine."""
        return platform.node()

    def message(self, size: int) -> bytes:
        """Return so many bytes."""
        return bytes(size)
