"""Messages of turns on links that parties share: how long they take depends on those that are sent meanwhile.

In a turn a party computes, its message goes up, and the answer comes down as soon as that has arrived. When the turn
arrives is known only when it does, as a turn that begins later may slow it down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flexray.algorithms.base import Plan
from flexray.core.flows import Flow, Traffic
from flexray.core.network import WAYS, Message, Network

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
        down: The answer, once it is its turn; None: it is on its way.
    """

    party: int
    start: float
    plan: Plan
    utilization: tuple[float, ...]
    down: Message | None


class Transfers:
    """The messages of all parties on shared links.

    Args:
        network: The links.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._traffic = Traffic(network.capacities, len(network.links))
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
        up, down = (self._network.message(way, party, index, start) for way in WAYS)
        self._traffic.send(party, up.flow(start + plan.duration_units - plan.comm_units))
        self._turns[party] = TurnUnderWay(party, start, plan, utilization, down)

    def step(self) -> list[TurnUnderWay]:
        """Let time pass until :attr:`next`; return the turns that arrive then, with the time that they really took."""
        arrived = []
        for party in self._traffic.step():
            turn = self._turns[party]
            if turn.down is not None:
                self._traffic.send(party, turn.down.flow(self.now))
                self._turns[party] = replace(turn, down=None)
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
            is_up = turn.down is not None
            saved.append((party, turn.start, turn.plan, turn.utilization, is_up, flow.begin, flow.left))
        return self.now, saved

    def load(self, saved: tuple[float, list[SavedTurn]], turns: Sequence[int]) -> None:
        """Load what :meth:`save` returned; ``turns`` has the number (0-based) of every party's turn.

        Raises:
            ValueError: No message can be in such a state.
        """
        now, under_way = saved
        self._traffic = Traffic(self._network.capacities, len(self._network.links), now)
        for party, start, plan, utilization, is_up, begin, left in under_way:
            if not (0 <= party < len(turns) and 0 <= now < math.inf and 0 <= begin < math.inf and 0 <= left < math.inf):
                raise ValueError(f"transfers: no such message can be: {left} bytes of party {party} at {begin}")
            up, down = (self._network.message(way, party, turns[party], start) for way in WAYS)
            message = up if is_up else down
            self._traffic.send(party, Flow(begin, left, message.most, message.crosses))
            self._turns[party] = TurnUnderWay(party, start, plan, utilization, down if is_up else None)
