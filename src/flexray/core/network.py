"""How long the messages of a round take on their links (docs/algorithms.md, Links).

A link has either one number for both directions, a round trip and perhaps a bandwidth; then a round waits for the
slowest link. Or its messages are timed one by one: all blocks go up at once, the server answers when it has the last of
them, and all answers go down at once. That is needed where directions differ, links are shared, or latencies vary,
messages get lost or bandwidths follow a trace. What varies is a function of the seed and the round or the time alone:
it is the same under every placement of the parties and after ``resume``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from flexray.core.flows import Flow, end_times
from flexray.core.seeds import uniform

Way = Literal["up", "down"]
WAYS: tuple[Way, Way] = ("up", "down")
Scale = Callable[[int, float], Sequence[float]]
"""What the bandwidth of every party is multiplied by, in a round (0-based; VAFL: a turn) that starts at a time."""


@dataclass(frozen=True)
class Link:
    """The link of one party.

    Args:
        round_trip: Units that a message up and one down take, if they have no length.
        up: Bytes per unit of time from the party to the server; infinite where bytes take no time.
        down: The same from the server to the party.
        jitter: The largest share by which the latency of a message is more or less than usual, from 0 to 1.
        loss: Probability that a message is lost, below 1.
    """

    round_trip: float
    up: float = math.inf
    down: float = math.inf
    jitter: float = 0.0
    loss: float = 0.0

    def units(self, up_bytes: int, down_bytes: int) -> float:
        """Return the round trip of two messages of a length, if nothing varies and nobody shares the link."""
        if self.up == self.down:
            return self.round_trip + (up_bytes + down_bytes) / self.up
        return self.round_trip + up_bytes / self.up + down_bytes / self.down


@dataclass(frozen=True)
class SharedLink:
    """A link that several parties share, beside their own.

    Args:
        parties: They (0-based).
        up: Bytes per unit of time of all together, to the server.
        down: The same from the server.
    """

    parties: frozenset[int]
    up: float = math.inf
    down: float = math.inf


@dataclass(frozen=True)
class Message:
    """One message on its way.

    Args:
        wait: Units until its first byte leaves for the last time, and latency.
        size: Bytes, as often as they are sent.
        most: Bytes per unit of time, if nobody else sends.
        crosses: The shared links that it crosses, by place in :attr:`Network.capacities`.
        sends: How often it is sent until it arrives.
    """

    wait: float
    size: float
    most: float
    crosses: tuple[int, ...] = ()
    sends: int = 1

    @property
    def units(self) -> float:
        """How long it takes, if nobody else sends."""
        return self.wait + self.size / self.most

    def flow(self, begin: float) -> Flow:
        """Return its bytes on the way, if it is sent then."""
        return Flow(begin + self.wait, self.size, self.most, self.crosses)


@dataclass(frozen=True)
class Network:
    """The links of all parties.

    Args:
        links: One per party.
        one_by_one: Whether messages are timed one by one.
        shared: Links that parties share.
        seed: The run's seed.
        scale: Bandwidths over time; None: as they are.
        up_bytes: Bytes of the message up, per party; none until they are known.
        down_bytes: The same of the message down.
    """

    links: tuple[Link, ...]
    one_by_one: bool = False
    shared: tuple[SharedLink, ...] = ()
    seed: int = 0
    scale: Scale | None = None
    up_bytes: tuple[int, ...] = ()
    down_bytes: tuple[int, ...] = ()

    def carrying(self, up_bytes: Sequence[int], down_bytes: Sequence[int]) -> Network:
        """Return the same links with messages of these lengths."""
        return replace(self, up_bytes=tuple(up_bytes), down_bytes=tuple(down_bytes))

    @property
    def capacities(self) -> tuple[float, ...]:
        """Bytes per unit of time of all shared links up, then down."""
        return (*(link.up for link in self.shared), *(link.down for link in self.shared))

    def usual_units(self) -> tuple[float, ...]:
        """Return every party's round trip, if nothing varies and nobody shares a link."""
        sizes = zip(self.up_bytes, self.down_bytes, strict=True) if self.up_bytes else ((0, 0) for _ in self.links)
        return tuple(link.units(*pair) for link, pair in zip(self.links, sizes, strict=True))

    def message(self, way: Way, party: int, index: int, sim_time: float) -> Message:
        """Return a party's message in a round (0-based; VAFL: in a turn of its own) that starts at a time."""
        link, is_up = self.links[party], way == "up"
        resent = self._resent(link.loss, index, party, way)
        factor = 1.0 if not link.jitter else 1 + link.jitter * (2 * self._draw("jitter", index, party, way) - 1)
        size = (self.up_bytes if is_up else self.down_bytes)[party] if self.up_bytes else 0
        scale = 1.0 if self.scale is None else self.scale(index, sim_time)[party]
        first = 0 if is_up else len(self.shared)
        crosses = tuple(first + place for place, shared in enumerate(self.shared) if party in shared.parties)
        most = min((link.up if is_up else link.down) * scale, *(self.capacities[place] for place in crosses), math.inf)
        wait = link.round_trip / 2 * factor + resent * link.round_trip
        return Message(wait, float(size * (1 + resent)), most, crosses, 1 + resent)

    def round_units(self, index: int, sim_time: float, absent: Collection[int] = ()) -> tuple[float, ...]:
        """Return how long it takes, from the first message up, until each party has its answer; 0 for the absent.

        Args:
            index: 0-based round.
            sim_time: Simulated time at its start.
            absent: The parties (0-based) that miss it.
        """
        varies = self.scale is not None or any(link.jitter or link.loss for link in self.links)
        when = (index, sim_time) if varies else (0, 0.0)
        return _round_units(self, *when, frozenset(absent))

    def turn_units(self, party: int, index: int, sim_time: float) -> float:
        """Return the round trip in a turn (0-based) of a party that starts at a time, if nobody else sends."""
        return sum(self.message(way, party, index, sim_time).units for way in WAYS)

    def sends(self, party: int, index: int) -> tuple[int, int]:
        """Return how often a party's message up and the one down are sent, in a round (0-based; VAFL: its turn)."""
        loss = self.links[party].loss
        return 1 + self._resent(loss, index, party, "up"), 1 + self._resent(loss, index, party, "down")

    def _resent(self, loss: float, index: int, party: int, way: Way) -> int:
        """Return how often a message is lost: n times or more with probability ``loss`` to the power of n."""
        return math.floor(math.log(1 - self._draw("loss", index, party, way)) / math.log(loss)) if loss else 0

    def _draw(self, what: str, index: int, party: int, way: Way) -> float:
        """Return a number from 0 to below 1."""
        return uniform(self.seed, what, index, party + 1, way)


@lru_cache(maxsize=16)
def _round_units(network: Network, index: int, sim_time: float, absent: frozenset[int]) -> tuple[float, ...]:
    """Return what :meth:`Network.round_units` does; one round is asked for often, and many are alike."""
    present = [k for k in range(len(network.links)) if k not in absent]
    up, down = (_ends(network, [network.message(way, k, index, sim_time) for k in present]) for way in WAYS)
    units = [0.0] * len(network.links)
    for k, answered in zip(present, down, strict=True):
        units[k] = max(up) + answered
    return tuple(units)


def _ends(network: Network, messages: Sequence[Message]) -> tuple[float, ...]:
    """Return how long messages take that are sent together."""
    if not network.shared:
        return tuple(message.units for message in messages)
    return end_times([message.flow(0.0) for message in messages], network.capacities)
