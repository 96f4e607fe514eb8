"""Partial participation: parties that miss rounds, as a simulation wants them to (docs/algorithms.md, Absence).

An absent party is not one that failed: its process lives, takes part in evaluations and keeps its model; that of a lost
process is replaced (:mod:`flexray.run.execution`). In a round that it misses, a party

* takes no local iteration, sends nothing and receives nothing, and neither it nor its link is waited for;
* is stood in for, at the server and at the others, by its last embeddings: for every sample of the batch what the party
  sent when the sample was last in a batch of a round that it took part in. Before time 0 it sends those of all
  training samples once, as in VAFL, which counts neither as time nor as bytes.

The others get Phi as ever, what stands in included. If every party misses a round, the server goes on alone and no link
is waited for; if it is frozen, too, the round passes with its timeout. All take part in a dummy round
(``adaptive.first=dummy``).

Shapes: b = samples of a batch, n = training samples, o = embedding width of a party.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from typing_extensions import override

from flexray.core.seeds import uniform


class Absences(ABC):
    """The parties (0-based) that miss each round."""

    @property
    @abstractmethod
    def possible(self) -> frozenset[int]:
        """The parties that may ever miss a round."""

    @abstractmethod
    def of(self, round_index: int, utilization: Sequence[float]) -> frozenset[int]:
        """Return the parties that miss a round.

        Args:
            round_index: 0-based round.
            utilization: CPU utilizations in that round, of the parties and then the server.
        """


@dataclass(frozen=True)
class DrawnAbsences(Absences):
    """A party misses a round by chance, because it is too busy, or because others were drawn into it.

    Chance is the number in [0, 1) that ``(seed, "absence", round, party)`` names: it is the same under every placement
    of the parties and after ``resume``, and a party that misses a round at one probability misses it at any higher. A
    sample has the parties with the smallest numbers of ``(seed, "sample", round, party)``, so that a larger one has
    those of a smaller.

    Args:
        seed: The run's seed.
        probability: Of every party, in [0, 1).
        above: Utilization of every party above which it misses the round; infinite: never.
        sample: How many parties are drawn into each round, before any misses it for another reason; None: all.
    """

    seed: int
    probability: tuple[float, ...]
    above: tuple[float, ...]
    sample: int | None = None

    @property
    @override
    def possible(self) -> frozenset[int]:
        sampled = self.sample is not None and self.sample < len(self.probability)
        return frozenset(k for k, p in enumerate(self.probability) if sampled or p > 0 or self.above[k] < 1)

    @override
    def of(self, round_index: int, utilization: Sequence[float]) -> frozenset[int]:
        return _missing(self, round_index, tuple(utilization))

    def draw(self, what: str, round_index: int, party: int) -> float:
        """Return the number in [0, 1) that decides on a party in a round."""
        return uniform(self.seed, what, round_index, party + 1)


@lru_cache(maxsize=2)
def _missing(absences: DrawnAbsences, round_index: int, utilization: tuple[float, ...]) -> frozenset[int]:
    """Return the parties that miss a round, which is asked for when it is planned and when the one before is."""
    parties, draw = range(len(absences.probability)), absences.draw
    missing = {
        k
        for k in absences.possible
        if utilization[k] > absences.above[k] or draw("absence", round_index, k) < absences.probability[k]
    }
    if absences.sample is not None:
        missing.update(sorted(parties, key=lambda k: draw("sample", round_index, k))[absences.sample :])
    return frozenset(missing)


@dataclass(frozen=True)
class RecordedAbsences(Absences):
    """Those of an earlier run (``speeds=replay``); ``rounds`` has the parties that missed each."""

    rounds: tuple[frozenset[int], ...]

    @property
    @override
    def possible(self) -> frozenset[int]:
        return frozenset().union(*self.rounds)

    @override
    def of(self, round_index: int, utilization: Sequence[float]) -> frozenset[int]:
        return self.rounds[round_index]


@dataclass(frozen=True)
class ChosenAbsences(Absences):
    """Those that an algorithm chooses, besides others.

    Args:
        choose: Returns the parties that a round (0-based) at these CPU utilizations goes without.
        parties: How many parties there are; any of them may be chosen.
        others: Absences besides these.
    """

    choose: Callable[[int, Sequence[float]], frozenset[int]]
    parties: int
    others: Absences | None = None

    @property
    @override
    def possible(self) -> frozenset[int]:
        return frozenset(range(self.parties))

    @override
    def of(self, round_index: int, utilization: Sequence[float]) -> frozenset[int]:
        others = frozenset() if self.others is None else self.others.of(round_index, utilization)
        return self.choose(round_index, utilization) | others
