"""Seconds of rounds and turns on known machines (docs/time.md, Seconds on your machines).

Every list holds the parties 1..K, then the server. A participant at utilization c has the share 1 - c of its machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

NO_WAIT = math.inf
"""Cores of a machine that has enough for everybody."""
STEPS, CLOSE, TINY_S = 100, 1 + 1e-6, 1e-18
"""How often, and how closely, the length of turns is settled; the least that one takes."""


@dataclass(frozen=True)
class Measured:
    """What participants take, each while the others rest.

    Args:
        iteration_s: A local iteration.
        first_s: The first local iteration of a round.
        together_s: A local iteration while all others take theirs; 0: what follows from ``cores``.
        embedding_s: The embeddings of a batch; 0 for the server.
        turn_s: VAFL: a party's turn, from the server's answer to its next message; of the server: its answer.
        round_s: What a round takes beside local iterations, embeddings and links.
        process: Number of the process in which each lives; those of one process compute one after another.
        machine: Number of the machine on which each lives.
        cores: Cores of every machine; infinite where nobody waits for one.
        driver_s: VAFL: what the driver, which handles one turn after another, is busy with each; 0: with none.
    """

    iteration_s: tuple[float, ...]
    first_s: tuple[float, ...]
    together_s: tuple[float, ...]
    embedding_s: tuple[float, ...]
    turn_s: tuple[float, ...]
    round_s: float
    process: tuple[int, ...]
    machine: tuple[int, ...]
    cores: tuple[float, ...]
    driver_s: float = 0.0

    @cached_property
    def _by_process(self) -> tuple[tuple[int, ...], ...]:
        """The participants of each process."""
        numbers = dict.fromkeys(self.process)
        return tuple(tuple(k for k, own in enumerate(self.process) if own == number) for number in numbers)

    def with_iterations(self, iteration_s: Sequence[float]) -> Measured:
        """Return the same with other seconds of local iterations, also of the first and those of turns."""
        before = self.iteration_s
        first = [f if s == b else s for f, s, b in zip(self.first_s, iteration_s, before, strict=True)]
        turn = [max(0.0, t + s - b) for t, s, b in zip(self.turn_s, iteration_s, before, strict=True)]
        together = [t * s / b for t, s, b in zip(self.together_s, iteration_s, before, strict=True)]
        return replace(
            self, iteration_s=tuple(iteration_s), first_s=tuple(first), turn_s=tuple(turn), together_s=tuple(together)
        )

    def unit_s(self, frozen: Sequence[bool]) -> tuple[float, ...]:
        """Return the seconds of a local iteration while all others that are not ``frozen`` take theirs."""
        busy = [1.0 if any(not frozen[k] for k in own) else 0.0 for own in self._by_process]
        crowding = self._crowding(busy)
        usual = [s * crowding[m] for s, m in zip(self.iteration_s, self.machine, strict=True)]
        return tuple(t or s for t, s in zip(self.together_s, usual, strict=True))

    def round_seconds(
        self, tau: Sequence[int], share: Sequence[float], least_s: float, absent: frozenset[int] = frozenset(),
        waits: bool = True, fills: bool = False,
    ) -> float:  # fmt: skip
        """Return how long a round lasts, without its links.

        As with ``clock=wall``, a round's computing lasts at least ``least_s``, and what comes on top is not slowed
        down by a utilization; a round that is as long as its local iterations is, as a whole.

        Args:
            tau: Local iterations.
            share: What everybody has of its machine.
            least_s: How long the computing lasts at least: the timeout, or 0.
            absent: Participants that neither compute nor embed.
            waits: Whether it lasts until every local iteration has ended, else for ``least_s`` if that is not 0.
            fills: Whether nobody begins a second local iteration that does not fit.
        """
        embeds = [0.0 if k in absent else s for k, s in enumerate(self.embedding_s)]
        opening_s = self._together([(sum(embeds[k] for k in own), 1.0) for own in self._by_process])
        overhead_s = self.round_s + opening_s
        if least_s > 0 and not (waits and any(tau)):
            return least_s + overhead_s
        busy = [self._busy_s(k, t) for k, t in enumerate(tau)]
        if least_s > 0:
            crowding = self._crowding([max(share[k] if busy[k] else 0.0 for k in own) for own in self._by_process])
            slowed = [seconds * crowding[m] for seconds, m in zip(busy, self.machine, strict=True)]
            if fills:
                slowed = [min(s, least_s * share[k]) if tau[k] > 1 else s for k, s in enumerate(slowed)]
            spans = [self._filled_s(b, share[k], least_s, overhead_s) if b else 0.0 for k, b in enumerate(slowed)]
            return max(sum(spans[k] for k in own) for own in self._by_process) + overhead_s
        work = []
        for own in self._by_process:
            own_s = sum(busy[k] + embeds[k] for k in own)
            rests_s = sum((busy[k] + overhead_s) * (1 / share[k] - 1) for k in own if busy[k])
            work.append((own_s + rests_s, own_s / (own_s + rests_s) if own_s else 0.0))
        return self._together(work) + self.round_s

    def turn_seconds(self, party: int, share: Sequence[float], link_s: Sequence[float], queued_s: float = 0.0) -> float:
        """Return the seconds of a party's turn until it sends, without its link.

        As with ``clock=wall``, a party rests for all that its turn takes: what the driver and the server are busy with
        it is included, and so is the wait for the server. Where a process or a machine cannot keep up with the turns of
        all, they take so many times as long.

        Args:
            party: Its place.
            share: What everybody has of its machine.
            link_s: Seconds of every party's messages in a turn.
            queued_s: How long the server was busy with others before it answered.
        """
        answer_s = self.turn_s[-1] + self.driver_s + queued_s
        turn_s = (self.turn_s[party] + answer_s) / share[party]
        return turn_s * self._turn_crowding(tuple(share), tuple(link_s))[party] - answer_s

    def _turn_crowding(self, share: tuple[float, ...], link_s: tuple[float, ...]) -> list[float]:
        """Return by party how many times as long its turns take because of those of others."""
        if (share, link_s) not in self._known_crowding:
            self._known_crowding.clear()
            self._known_crowding[share, link_s] = self._settled(share, link_s)
        return self._known_crowding[share, link_s]

    @cached_property
    def _known_crowding(self) -> dict[tuple[tuple[float, ...], tuple[float, ...]], list[float]]:
        """The last one, which most turns share."""
        return {}

    def _settled(self, share: Sequence[float], link_s: Sequence[float]) -> list[float]:
        """Let turns take longer until no process and no machine is asked for more than it has."""
        answer_s, parties = self.turn_s[-1], range(len(link_s))
        turns = [(self.turn_s[k] + answer_s + self.driver_s) / share[k] for k in parties]
        process = {k: p for p, own in enumerate(self._by_process) for k in own}
        found = [1.0] * len(link_s)
        for _ in range(STEPS):
            rates = [1 / max(turns[k] * found[k] + link_s[k], TINY_S) for k in parties]
            work = [*(self.turn_s[k] * rates[k] for k in parties), answer_s * sum(rates)]
            asked = [sum(work[k] for k in own) for own in self._by_process]
            machines = self._crowding([min(1.0, part) for part in asked], min(1.0, self.driver_s * sum(rates)))
            last = machines[self.machine[-1]]
            more = [max(asked[process[k]], machines[self.machine[k]], last, 1.0) for k in parties]
            found = [own * times for own, times in zip(found, more, strict=True)]
            if max(more) < CLOSE:
                break
        return found

    def _busy_s(self, k: int, tau: int) -> float:
        return self.first_s[k] + (tau - 1) * self.iteration_s[k] if tau else 0.0

    def _filled_s(self, busy_s: float, share: float, least_s: float, overhead_s: float) -> float:
        """Return how long local iterations and rests last where a round has a least time for them."""
        part = min(1.0, busy_s / least_s)
        return max(least_s, (busy_s + overhead_s * part) / share - overhead_s)

    def _crowding(self, busy: Sequence[float], driver: float = 0.0) -> list[float]:
        """Return by machine how much longer computing takes, given the part of the time that each process computes.

        The ``driver`` is on the server's machine.
        """
        asked = [0.0] * len(self.cores)
        asked[self.machine[-1]] += driver
        for own, part in zip(self._by_process, busy, strict=True):
            asked[self.machine[own[0]]] += part
        return [max(1.0, part / cores) for part, cores in zip(asked, self.cores, strict=True)]

    def _together(self, work: Sequence[tuple[float, float]]) -> float:
        """Return when the last process ends if all begin at once.

        Args:
            work: Per process: the seconds that it takes alone, and the part of them in which it computes.
        """
        left, now = [seconds for seconds, _ in work], 0.0
        if all(cores == NO_WAIT for cores in self.cores):
            return max(left)
        while any(seconds > 0 for seconds in left):
            crowding = self._crowding(
                [part if seconds > 0 else 0.0 for seconds, (_, part) in zip(left, work, strict=True)]
            )
            slower = [crowding[self.machine[own[0]]] for own in self._by_process]
            step = min(seconds * slow for seconds, slow in zip(left, slower, strict=True) if seconds > 0)
            now += step
            ends = [seconds * slow <= step * (1 + 1e-12) for seconds, slow in zip(left, slower, strict=True)]
            left = [
                0.0 if over else seconds - step / slow for seconds, slow, over in zip(left, slower, ends, strict=True)
            ]
        return now
