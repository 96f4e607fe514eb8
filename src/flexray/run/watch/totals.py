"""Times of a run, added up exactly for each participant; only runs that report them have this observer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from typing_extensions import override

from flexray.core.messages import Record, RoundRecord
from flexray.run.watch.base import Observer, ObserverState

KIND: Any = {"waited": list[list[float]]}
"""Types of the state of :class:`TimeTotals`."""


class TimeTotals(Observer):
    """Adds up how long each participant waited for slower ones between its turns.

    Sums are exact: they depend neither on the order of rounds nor on where a run was interrupted.

    Args:
        names: The parties, then the server.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._waited = [Fraction()] * len(names)

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, RoundRecord) and record.party is not None:
            self._waited[record.party] += Fraction(record.waited_units)

    @property
    def waited(self) -> dict[str, float]:
        """Time that every party waited, by name."""
        return {name: float(total) for name, total in zip(self._names[:-1], self._waited, strict=False)}

    @override
    def save(self) -> ObserverState:
        return {"waited": [list(_parts(total)) for total in self._waited]}

    @override
    def load(self, state: ObserverState) -> None:
        self._waited = [_total(parts) for parts in state["waited"]]


def _parts(total: Fraction) -> Iterator[float]:
    """Yield numbers that add up to ``total``, a sum of floats, exactly: few, the largest first."""
    while total:
        yield float(total)
        total -= Fraction(float(total))


def _total(parts: Iterable[float]) -> Fraction:
    return sum(map(Fraction, parts), Fraction())


def makes_sense(state: ObserverState, participants: int) -> bool:
    """Whether a state of these types is of as many participants, and finite."""
    return all(
        len(sums) == participants and all(math.isfinite(part) for parts in sums for part in parts)
        for sums in state.values()
    )
