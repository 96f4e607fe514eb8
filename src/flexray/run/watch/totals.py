"""Sums over a run that only some runs report: waits, energy, money.

They are exact, so they depend neither on the order of rounds nor on where the run was interrupted.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

from typing_extensions import override

from flexray.core.costs import ENERGY, PRICE, Costs, Shares, total
from flexray.core.messages import Ended, EvalRecord, Record, RoundRecord
from flexray.engine.driver.experiment import Target
from flexray.run.watch.base import Observer, ObserverState

Saved = list[list[float]]
"""Exact sums as JSON: each as a few floats that add up to it."""


class SumObserver(Observer):
    """Adds up something over a run, for its summary.

    Args:
        names: The parties, then the server.
    """

    KIND: ClassVar[Any]
    """Types of its state."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._units = [Fraction()] * len(names)

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Return what goes into ``summary.json``."""

    @override
    def save(self) -> ObserverState:
        return {"units": [_parts(units) for units in self._units]}

    @override
    def load(self, state: ObserverState) -> None:
        self._units = [sum(map(Fraction, parts), Fraction()) for parts in state["units"]]

    def makes_sense(self, state: ObserverState) -> bool:
        """Whether a state of these types is of as many participants, and finite."""
        units = state["units"]
        return len(units) == len(self._names) and all(math.isfinite(part) for parts in units for part in parts)


class WaitObserver(SumObserver):
    """Adds up how long each party waited for slower ones between its turns."""

    KIND: ClassVar[Any] = {"units": Saved}

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, RoundRecord) and record.party is not None:
            self._units[record.party] += Fraction(record.waited_units)

    @override
    def summary(self) -> dict[str, Any]:
        return {"waited": dict(zip(self._names[:-1], map(float, self._units), strict=False))}


class TimeoutObserver(SumObserver):
    """Notes the timeouts that rounds got: the shortest, the longest and the mean."""

    KIND: ClassVar[Any] = {"units": Saved, "rounds": int, "least": float, "most": float}

    def __init__(self) -> None:
        super().__init__(("timeout",))
        self._rounds, self._least, self._most = 0, 0.0, 0.0

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, RoundRecord) and record.timeout_units is not None:
            self._least = min(self._least, record.timeout_units) if self._rounds else record.timeout_units
            self._rounds += 1
            self._units[0] += Fraction(record.timeout_units)
            self._most = max(self._most, record.timeout_units)

    @override
    def summary(self) -> dict[str, Any]:
        if not self._rounds:
            return {"timeout": None}
        return {"timeout": {"least": self._least, "mean": float(self._units[0] / self._rounds), "most": self._most}}

    @override
    def save(self) -> ObserverState:
        return {**super().save(), "rounds": self._rounds, "least": self._least, "most": self._most}

    @override
    def load(self, state: ObserverState) -> None:
        super().load(state)
        self._rounds, self._least, self._most = state["rounds"], state["least"], state["most"]


def timeout_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the timeouts that rounds got, if they were chosen."""
    if not (chosen := summary.get("timeout")):
        return []
    shown = "{least:,.6g} to {most:,.6g}, mean {mean:,.6g}" if chosen["least"] < chosen["most"] else "{mean:,.6g}"
    return [(f"timeout chosen ({summary['time_unit']})", shown.format(**chosen))]


class CostObserver(SumObserver):
    """Adds up how long each participant computed and what its link carried, and says what that costs.

    Args:
        names: The parties, then the server.
        costs: What a unit of time and a byte cost.
        target: Costs until it is met are reported, too.
    """

    KIND: ClassVar[Any] = {"units": Saved, "sent": list[int], "to_target": (None, dict[str, float])}

    def __init__(self, names: Sequence[str], costs: Costs, target: Target) -> None:
        super().__init__(names)
        self._costs = costs
        self._target = target
        self._sent = [0] * (len(names) - 1)
        self._to_target: dict[str, float] | None = None
        self._end = 0.0
        self._work: tuple[tuple[int, ...], tuple[float, ...]] = ((), ())
        self._rounds = 0

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, RoundRecord):
            work = record.tau, record.unit_times
            if work != self._work:
                self._settle()
                self._work = work
            self._rounds += 1
            self._sent = list(map(sum, zip(self._sent, record.up_bytes, record.down_bytes, strict=True)))
        elif isinstance(record, EvalRecord):
            if self._to_target is None and self._target.met_by(record.metrics):
                self._to_target = self.until(record.sim_time)
        elif isinstance(record, Ended):
            self._end = record.sim_time

    def _settle(self) -> None:
        """Add up the last rounds, in which local iterations and their times were the same."""
        for k, (tau, unit) in enumerate(zip(*self._work, strict=True)):
            if tau:
                self._units[k] += self._rounds * tau * Fraction(unit)
        self._rounds = 0

    def until(self, time: float) -> dict[str, float]:
        """Return the costs of all participants together, of what was seen, up to ``time``."""
        return {name: total(shares) for name, shares in self._shares(time).items()}

    def _shares(self, time: float) -> dict[str, Shares]:
        self._settle()
        found = {}
        if self._costs.has_energy:
            found[ENERGY] = self._costs.energy(self._units, self._sent)
        if self._costs.has_price:
            found[PRICE] = self._costs.price(time, self._sent)
        return found

    @override
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, shares in self._shares(self._end).items():
            found[name] = total(shares)
            found[f"{name}_to_target"] = None if self._to_target is None else self._to_target[name]
            found[f"{name}_by_participant"] = {
                who: {"machine": float(machine), "link": float(link)}
                for who, (machine, link) in zip(self._names, shares, strict=True)
            }
        return found

    @override
    def save(self) -> ObserverState:
        self._settle()
        return {**super().save(), "sent": list(self._sent), "to_target": self._to_target}

    @override
    def load(self, state: ObserverState) -> None:
        super().load(state)
        self._rounds = 0
        self._sent, self._to_target = list(state["sent"]), state["to_target"]

    @override
    def makes_sense(self, state: ObserverState) -> bool:
        names, reached = [ENERGY] * self._costs.has_energy + [PRICE] * self._costs.has_price, state["to_target"]
        return super().makes_sense(state) and len(state["sent"]) == len(self._sent) and list(reached or names) == names


def _parts(units: Fraction) -> list[float]:
    """Return numbers that add up to ``units``, a sum of floats, exactly: few, the largest first."""
    parts = []
    while units:
        parts.append(float(units))
        units -= Fraction(parts[-1])
    return parts
