"""Faults of measured utilizations, and their repair.

Every kind of fault has a name and a count, which the command line prints and the trace file holds
(``flexray.cleaning``).

Shapes: w = windows of one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from flexray.core.errors import DataError
from flexray.traces.files import BoolArray, FloatArray

KINDS = {
    "nan": "values that are empty or not numbers",
    "negative": "values below 0",
    "above_one": "values above 1",
    "gaps": "windows without any value",
    "unsorted": "rows earlier than the row before",
    "overlapping": "rows that cover time which another row of the same task or machine covers",
    "start_shift_s": "seconds that the first window lay after time 0",
    "all_zero": "machines that are at 0 all the time",
    "sparse": "machines left out because values are missing (--min-coverage, --fill drop)",
    "reversed": "rows that end before they start",
    "no_machine": "rows that name no machine",
    "no_capacity": "machines whose capacity is not known",
    "idle": "windows in which no task ran on a machine that was there",
    "in_alloc": "rows of tasks inside an alloc, whose own row counts them",
    "beyond_limit": "rows of machines beyond --max-machines",
}
"""Kinds of fault. The first eight are always reported, the others where they occur."""
ALWAYS = tuple(KINDS)[:8]
NO_FAULT = ("idle", "in_alloc")
"""Counted for information only: ``--strict`` lets them pass."""


@dataclass
class Counts:
    """Faults by kind, and the place of the first of each."""

    number: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ALWAYS, 0))
    first: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, count: int, where: str = "") -> None:
        """Count faults of a kind in ``KINDS``."""
        if count:
            self.number[kind] = self.number.get(kind, 0) + int(count)
            if where:
                self.first.setdefault(kind, where)

    def merge(self, other: Counts) -> None:
        """Add other counts."""
        for kind, count in other.number.items():
            self.add(kind, count, other.first.get(kind, ""))

    def refuse(self, source: str) -> None:
        """Refuse faults (``--strict``); one with a known file and line is named first.

        Args:
            source: The file or files, for faults with a known machine only.

        Raises:
            DataError: There is a fault.
        """
        faults = [kind for kind, count in self.number.items() if count and kind not in NO_FAULT]
        for kind in sorted(faults, key=lambda kind: ": line " not in self.first.get(kind, "")):
            place = self.first.get(kind, "")
            place = place if ": line " in place else f"{source}: {place}".removesuffix(": ")
            raise DataError(f"{place}: {KINDS[kind]}: {self.number[kind]:,}; --strict allows none")


@dataclass(frozen=True)
class Policy:
    """The repair of faults.

    Args:
        fill: For a window without a usable value: ``hold`` the value before it (the first value, at the start),
            ``zero``, or ``drop`` the whole machine.
        above_one: ``clip`` values above 1 to 1, ``fill`` them like missing ones, or ``refuse`` them.
        min_coverage: Machines with usable values in a smaller part of the windows are left out.
        min_machines: Least number of machines left.
    """

    fill: str = "hold"
    above_one: str = "clip"
    min_coverage: float = 0.0
    min_machines: int = 1


def clean(
    rows: Iterable[tuple[str, FloatArray]], policy: Policy, counts: Counts, source: str
) -> Iterator[tuple[str, FloatArray]]:
    """Yield the usable machines, with a value in [0, 1] in every window.

    Args:
        rows: Machine and values; NaN where a window has no usable value.
        policy: The repair of faults.
        counts: Faults are added to them.
        source: The file or files, for messages.

    Raises:
        DataError: Fewer machines are left than ``policy.min_machines``.
    """
    seen = left = 0
    for name, value_w in rows:
        seen += 1
        cleaned_w = _clean(name, value_w, policy, counts)
        if cleaned_w is not None:
            left += 1
            yield name, cleaned_w
    if left < policy.min_machines:
        wanted = f"at least {policy.min_machines} machine{'s' if policy.min_machines > 1 else ''}"
        raise DataError(f"{source}: expected {wanted}, got {left} that can be used, of {seen}")


def _clean(name: str, value_w: FloatArray, policy: Policy, counts: Counts) -> FloatArray | None:
    missing_w = np.isnan(value_w)
    too_few = missing_w.all() or 1 - missing_w.mean() < policy.min_coverage
    if too_few or (missing_w.any() and policy.fill == "drop"):
        counts.add("sparse", 1, f"machine '{name}'")
        return None
    if missing_w.any():
        value_w = _filled(value_w, missing_w, policy.fill)
    if not value_w.any():
        counts.add("all_zero", 1, f"machine '{name}'")
        return None
    return value_w


def _filled(value_w: FloatArray, missing_w: BoolArray, fill: str) -> FloatArray:
    if fill == "zero":
        return np.where(missing_w, 0.0, value_w)
    known_w = np.flatnonzero(~missing_w)
    before_w = np.searchsorted(known_w, np.arange(len(value_w)), side="right") - 1
    held_w: FloatArray = value_w[known_w[np.maximum(before_w, 0)]]
    return held_w


def judge(
    value_n: FloatArray, policy: Policy, counts: Counts, place: Callable[[int], str]
) -> tuple[FloatArray, BoolArray]:
    """Return the values, those above 1 cut to 1, and which of them are unusable.

    Args:
        value_n: Values as measured, as fractions.
        policy: Its ``above_one`` decides about values above 1.
        counts: Faults are added to them.
        place: Returns the place of a value.

    Raises:
        DataError: A value is above 1, and the policy is to refuse it.
    """
    nan_n, negative_n, above_n = ~np.isfinite(value_n), value_n < 0, (value_n > 1) & np.isfinite(value_n)
    for kind, bad_n in (("nan", nan_n), ("negative", negative_n & ~nan_n), ("above_one", above_n)):
        if not bad_n.any():
            continue
        first = int(np.flatnonzero(bad_n)[0])
        if kind == "above_one" and policy.above_one == "refuse":
            raise DataError(
                f"{place(first)}: {value_n[first]:g} is above 1; if the values are in per cent, add --unit percent;"
                " to cut them to 1, add --above-one clip"
            )
        counts.add(kind, int(bad_n.sum()), place(first))
    unusable_n = nan_n | negative_n
    if above_n.any():
        if policy.above_one == "fill":
            unusable_n |= above_n
        value_n = np.where(above_n, 1.0, value_n)
    return value_n, unusable_n
