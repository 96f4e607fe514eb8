"""Schedules of participants (compute, wait, communicate): ``timeline.json`` in a form small enough for a page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flexray.core.errors import RunFolderError
from flexray.core.runfolder import TIMELINE_FILE, read_text
from flexray.report.runs import UNFINISHED, FloatArray, Run

MICROSECONDS_PER_UNIT = 1000.0
"""The run's timeline shows a unit as a millisecond."""
KINDS = ("compute", "wait", "communicate")
MAX_KINDS = 26
DIGITS = 6
"""Digits of the longest span; the others have as many decimals."""


@dataclass(frozen=True)
class Lane:
    """The spans of one participant, in order.

    Args:
        kinds: A letter per span: a for the first kind, b for the second.
        rounds: The round of each span.
        gaps: Units between its start and the end of the one before.
        lengths: Units of each span.
    """

    kinds: str
    rounds: list[int]
    gaps: list[float]
    lengths: list[float]

    def total(self, kind: str) -> float:
        """Return the units of all spans of a kind, given by its letter."""
        return sum(length for letter, length in zip(self.kinds, self.lengths, strict=True) if letter == kind)

    def packed(self, max_rounds: int) -> dict[str, Any]:
        """Return the spans of the first rounds; rounds as steps from the one before."""
        end = int(np.searchsorted(self.rounds, max_rounds, side="right"))
        steps = [int(step) for step in np.diff(self.rounds[:end], prepend=0)]
        return {"kinds": self.kinds[:end], "steps": steps, "gaps": self.gaps[:end], "lengths": self.lengths[:end]}


@dataclass(frozen=True)
class Schedule:
    """The lanes of the parties and, last, of the server, and the kinds of spans in them."""

    kinds: tuple[str, ...]
    lanes: tuple[Lane, ...]

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return max((lane.rounds[-1] for lane in self.lanes if lane.rounds), default=0)

    def packed(self, max_rounds: int) -> dict[str, Any]:
        """Return the data of the page, cut after ``max_rounds``."""
        lanes = [lane.packed(max_rounds) for lane in self.lanes]
        return {"kinds": list(self.kinds), "lanes": lanes, "shown": min(max_rounds, self.rounds), "rounds": self.rounds}


def read_schedule(run: Run) -> Schedule | None:
    """Return a run's schedule; None if it has no readable one."""
    try:
        text = read_text(run.folder / TIMELINE_FILE)
        events = json.loads(_closed(text) if run.status == UNFINISHED else text)["traceEvents"]
        spans = [(e["tid"], e["args"]["round"], e["ts"], e["dur"], e["name"]) for e in events if e["ph"] == "X"]
        columns = list(zip(*spans, strict=True))
        places_s, rounds_s, starts_s, lengths_s = (np.array(column, float) for column in columns[:4])
    except (RunFolderError, ValueError, KeyError, TypeError, RecursionError):
        return None
    names = [str(span[4]) for span in spans]
    kinds = tuple(dict.fromkeys([*KINDS, *names]))
    count = len(run.names)
    finite = all(np.isfinite(column).all() for column in (places_s, rounds_s, starts_s, lengths_s))
    if not finite or places_s.min() < 0 or places_s.max() >= count or len(kinds) > MAX_KINDS:
        return None
    letters = {kind: chr(97 + k) for k, kind in enumerate(kinds)}
    letters_s = np.array([letters[name] for name in names])
    starts_s, ends_s = _rounded(starts_s / MICROSECONDS_PER_UNIT, lengths_s / MICROSECONDS_PER_UNIT)
    lanes = []
    for k in range(count):
        own = np.flatnonzero(places_s == k)
        own = own[np.lexsort((rounds_s[own], starts_s[own]))]
        lanes.append(_lane(letters_s[own].tolist(), rounds_s[own], starts_s[own], ends_s[own]))
    return Schedule(kinds, tuple(lanes))


def _closed(text: str) -> str:
    """Return the text of an unfinished timeline, ended after its last whole event."""
    return text[: text.rfind("}}") + 2] + "]}" if not text.rstrip().endswith("}}}") else text


def _rounded(starts_s: FloatArray, lengths_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return starts and ends with the decimals of the longest span."""
    longest = float(lengths_s.max(initial=0.0))
    decimals = DIGITS - math.ceil(math.log10(longest)) if longest > 0 else DIGITS
    return np.round(starts_s, decimals), np.round(starts_s + lengths_s, decimals)


def _lane(letters: Sequence[str], rounds_s: FloatArray, starts_s: FloatArray, ends_s: FloatArray) -> Lane:
    before_s = np.concatenate([[0.0], ends_s[:-1]])[: len(starts_s)]
    rounds = np.maximum.accumulate(rounds_s.astype(int)).tolist() if len(rounds_s) else []
    return Lane("".join(letters), rounds, _compact(starts_s - before_s), _compact(ends_s - starts_s))


def _compact(values_s: FloatArray) -> list[float]:
    """Return numbers without the noise of subtraction; whole ones as int, which saves ``.0``."""
    return [int(v) if v.is_integer() else v for v in np.round(values_s, 9).tolist()]


def short(value: float, digits: int = 6) -> float:
    """Return a number in fewer digits; a whole one as int."""
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded
