"""Messages of turns on links that parties share: how long they take depends on those that are sent meanwhile.

In a turn a party computes, its message goes up, and the answer comes down as soon as that has arrived. When the turn
arrives is known only when it does, as a turn that begins later may slow it down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flexray.algorithms.base import Plan
from flexray.core.flows import Traffic
from flexray.core.network import Network

SavedTurn = tuple[int, float, Plan, tuple[float, ...], bool, float, float]
"""Party, start, plan, utilization, whether the message goes up, when it begins, bytes left of it."""


@dataclass(frozen=True)
class TurnUnderWay:
    """A party's turn that has begun and not arrived.

    Args:
        party: The party (0-based).
        start: When it began.
        plan: What happens at its end, as if nobody else sent.
        utilization: CPU utilizations at its start.
        index: Its number (0-based) among the party's turns.
        is_up: Whether the message is on its way; else the answer is.
    """

    party: int
    start: float
    plan: Plan
    utilization: tuple[float, ...]
    index: int
    is_up: bool


class Transfers:
    """The messages of all parties on shared links.

    Args:
        network: The links.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._traffic = Traffic.idle(len(network.links), network.capacities)
        self._turns: dict[int, TurnUnderWay] = {}

    @property
    def parties(self) -> list[int]:
        """The parties whose messages are under way."""
        return sorted(self._turns)

    @property
    def now(self) -> float:
        """The time until which messages have travelled."""
        return self._traffic.now

    @property
    def next(self) -> float:
        """The time until which nothing changes; infinite if nothing is under way."""
        return self._traffic.next if self._turns else math.inf

    def begin(self, party: int, index: int, start: float, plan: Plan, utilization: tuple[float, ...]) -> None:
        """Begin the turn (0-based) of a party at ``start``: it computes, then sends."""
        computed = start + plan.duration_units - plan.comm_units
        self._traffic.send(party, self._network.flow("up", party, index, start, computed))
        self._turns[party] = TurnUnderWay(party, start, plan, utilization, index, is_up=True)

    def step(self) -> list[TurnUnderWay]:
        """Let time pass until :attr:`next`; return the turns that arrive then, with the time that they really took."""
        arrived = []
        for party in self._traffic.step():
            turn = self._turns[party]
            if turn.is_up:
                self._traffic.send(party, self._network.flow("down", party, turn.index, turn.start, self.now))
                self._turns[party] = replace(turn, is_up=False)
            else:
                took, computing = self.now - turn.start, turn.plan.duration_units - turn.plan.comm_units
                plan = replace(turn.plan, duration_units=took, comm_units=max(0.0, took - computing))
                arrived.append(replace(self._turns.pop(party), plan=plan))
        return arrived

    def save(self) -> tuple[float, list[SavedTurn]]:
        """Return its state; messages are functions of the turn, so what is left of them is enough."""
        saved = []
        for party in self.parties:
            turn, flow = self._turns[party], self._traffic.flow(party)
            saved.append((party, turn.start, turn.plan, turn.utilization, turn.is_up, flow.begin, flow.left))
        return self.now, saved

    def load(self, saved: tuple[float, list[SavedTurn]], turns: Sequence[int]) -> None:
        """Load what :meth:`save` returned; ``turns`` has the number (0-based) of every party's turn.

        Raises:
            ValueError: No message can be in such a state.
        """
        now, under_way = saved
        self._traffic = Traffic.idle(len(self._network.links), self._network.capacities, now)
        for party, start, plan, utilization, is_up, begin, left in under_way:
            if not (0 <= party < len(turns) and 0 <= now < math.inf and 0 <= begin < math.inf and 0 <= left < math.inf):
                raise ValueError(f"transfers: no such message can be: {left} bytes of party {party} at {begin}")
            flow = self._network.flow("up" if is_up else "down", party, turns[party], start, begin)
            self._traffic.send(party, replace(flow, begin=begin, left=left))
            self._turns[party] = TurnUnderWay(party, start, plan, utilization, turns[party], is_up)
