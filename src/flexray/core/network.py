"""How long the messages of a round take on their links (docs/algorithms.md, Links).

A link has either one number for both directions, a round trip and perhaps a bandwidth; then a round waits for the
slowest link. Or its messages are timed one by one: all blocks go up at once, the server answers when it has the last of
them, and all answers go down at once. That is needed where directions differ, links are shared, or latencies vary,
messages get lost or bandwidths follow a trace. What varies is a function of the seed and the round or the time alone:
it is the same under every placement of the parties and after ``resume``.

Shapes: k = parties, p = some of them, l = shared links, up and then down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from flexray.core.flows import BoolArray, FloatArray, Flow, end_times
from flexray.core.seeds import generator

IntArray = npt.NDArray[np.int64]

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


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages in one direction, one of each of some parties.

    Args:
        wait_p: Units of latency, and of waiting until a lost message is sent again.
        size_p: Bytes, as often as they are sent.
        most_p: Bytes per unit of time, if nobody else sends.
        sends_p: How often each is sent until it arrives.
    """

    wait_p: FloatArray
    size_p: FloatArray
    most_p: FloatArray
    sends_p: IntArray

    @property
    def units_p(self) -> FloatArray:
        """How long each takes, if nobody else sends."""
        return self.wait_p + self.size_p / self.most_p


@dataclass(frozen=True, eq=False)
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

    @cached_property
    def capacities(self) -> tuple[float, ...]:
        """Bytes per unit of time of all shared links up, then down."""
        return (*(link.up for link in self.shared), *(link.down for link in self.shared))

    @cached_property
    def loses(self) -> bool:
        """Whether any message may get lost."""
        return any(link.loss for link in self.links)

    @cached_property
    def usual_units(self) -> tuple[float, ...]:
        """Every party's round trip, if nothing varies and nobody shares a link."""
        sizes = zip(self.up_bytes, self.down_bytes, strict=True) if self.up_bytes else ((0, 0) for _ in self.links)
        return tuple(link.units(*pair) for link, pair in zip(self.links, sizes, strict=True))

    # Rounds -----------------------------------------------------------------------------------------------------

    def round_units(self, index: int, sim_time: float, absent: Collection[int] = ()) -> tuple[float, ...]:
        """Return how long it takes, from the first message up, until each party has its answer; 0 for the absent.

        Args:
            index: 0-based round.
            sim_time: Simulated time at its start.
            absent: The parties (0-based) that miss it.
        """
        varies = self.scale is not None or self.loses or bool(self._of["jitter"].any())
        return self._round_units(index, sim_time, absent) if varies or absent else self._every_round

    @cached_property
    def _every_round(self) -> tuple[float, ...]:
        return self._round_units(0, 0.0, ())

    def _round_units(self, index: int, sim_time: float, absent: Collection[int]) -> tuple[float, ...]:
        units_k = np.zeros(len(self.links))
        present = np.setdiff1d(np.arange(len(self.links)), sorted(absent))
        if len(present):
            up_p, down_p = (self._ends(way, present, index, sim_time) for way in WAYS)
            units_k[present] = up_p.max() + down_p
        return tuple(units_k.tolist())

    def _ends(self, way: Way, present: IntArray, index: int, sim_time: float) -> FloatArray:
        """Return how long the messages take that are sent together."""
        sent = self.in_round(way, index, sim_time, present)
        if not self.shared:
            return sent.units_p
        return end_times(sent.wait_p, sent.size_p, sent.most_p, self._crosses[way][present], self.capacities)

    def in_round(self, way: Way, index: int, sim_time: float, parties: IntArray | None = None) -> Messages:
        """Return the messages of parties, by default of all, in a round (0-based) that starts at a time."""
        places = np.arange(len(self.links)) if parties is None else parties

        def draw(what: str) -> FloatArray:
            return generator(self.seed, what, way, index).random(len(self.links))[places]

        return self._messages(way, places, draw, index, sim_time)

    # Turns ------------------------------------------------------------------------------------------------------

    def turn_units(self, party: int, index: int, sim_time: float) -> float:
        """Return the round trip in a turn (0-based) of a party that starts at a time, if nobody else sends."""
        up, down = (float(self.in_turn(way, party, index, sim_time).units_p[0]) for way in WAYS)
        return up + down

    def in_turn(self, way: Way, party: int, index: int, sim_time: float) -> Messages:
        """Return the message in a turn (0-based) of a party that starts at a time."""

        def draw(what: str) -> FloatArray:
            return generator(self.seed, what, way, index, party + 1).random(1)

        return self._messages(way, np.array([party]), draw, index, sim_time)

    def flow(self, way: Way, party: int, index: int, sim_time: float, sent: float) -> Flow:
        """Return the message's bytes on their way, if it is ``sent`` at a time; see :meth:`in_turn`."""
        found = self.in_turn(way, party, index, sim_time)
        crosses = tuple(np.flatnonzero(self._crosses[way][party]).tolist())
        return Flow(sent + float(found.wait_p[0]), float(found.size_p[0]), float(found.most_p[0]), crosses)

    # Messages ---------------------------------------------------------------------------------------------------

    def _messages(
        self, way: Way, parties: IntArray, draw: Callable[[str], FloatArray], index: int, sim_time: float
    ) -> Messages:
        """Return messages; ``draw`` returns a number in [0, 1) per party, for a purpose."""
        round_trip_p, jitter_p, loss_p = (self._of[name][parties] for name in ("round_trip", "jitter", "loss"))
        wait_p, sends_p = round_trip_p / 2, np.ones(len(parties), dtype=np.int64)
        if jitter_p.any():
            wait_p = wait_p * (1 + jitter_p * (2 * draw("jitter") - 1))
        if loss_p.any():  # lost n times or more with probability loss to the power of n
            with np.errstate(divide="ignore"):
                sends_p += np.floor(np.log1p(-draw("loss")) / np.log(loss_p)).astype(np.int64)
        own_p = self._of[way][parties]
        if self.scale is not None:
            own_p = own_p * np.array(self.scale(index, sim_time))[parties]
        most_p = np.minimum(own_p, self._narrowest[way][parties])
        size_p = self._sizes[way][parties] * sends_p
        return Messages(wait_p + (sends_p - 1) * round_trip_p, size_p, most_p, sends_p)

    @cached_property
    def _of(self) -> dict[str, FloatArray]:
        """What the links have, by name, per party."""
        names = ("round_trip", "up", "down", "jitter", "loss")
        return {name: np.array([getattr(link, name) for link in self.links]) for name in names}

    @cached_property
    def _sizes(self) -> dict[Way, FloatArray]:
        """Bytes of every party's message."""
        none = (0,) * len(self.links)
        both: dict[Way, tuple[int, ...]] = {"up": self.up_bytes, "down": self.down_bytes}
        return {way: np.array(sizes or none, dtype=float) for way, sizes in both.items()}

    @cached_property
    def _crosses(self) -> dict[Way, BoolArray]:
        """Which of :attr:`capacities` the message of every party crosses, [k, l]."""
        found = {way: np.zeros((len(self.links), len(self.capacities)), dtype=bool) for way in WAYS}
        for place, shared in enumerate(self.shared):
            for first, way in enumerate(WAYS):
                found[way][sorted(shared.parties), first * len(self.shared) + place] = True
        return found

    @cached_property
    def _narrowest(self) -> dict[Way, FloatArray]:
        """The least capacity of the shared links that every party's message crosses."""
        capacity_l = np.array(self.capacities)
        crosses = self._crosses.items()
        return {way: np.where(c_kl, capacity_l, np.inf).min(axis=1, initial=np.inf) for way, c_kl in crosses}
