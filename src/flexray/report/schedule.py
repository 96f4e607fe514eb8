"""Who computed, waited and communicated when: ``timeline.json`` in a form small enough for a page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from flexray.errors import RunFolderError
from flexray.report.reading import read_text
from flexray.report.runs import UNFINISHED, Run

MICROSECONDS_PER_UNIT = 1000.0
"""As the run's timeline has it: a unit is shown as a millisecond."""


@dataclass(frozen=True)
class Event:
    """A span of one participant's time, in units."""

    kind: str
    round: int
    start: float
    length: float


@dataclass(frozen=True)
class Schedule:
    """The spans of each participant, in order."""

    lanes: tuple[tuple[Event, ...], ...]

    def packed(self, max_rounds: int) -> dict[str, Any]:
        """Return kinds and, per lane, letters of kinds, steps of rounds, gaps before spans and lengths.

        A lane is cut after ``max_rounds``, which the page says.
        """
        kinds = list(dict.fromkeys(["compute", "wait", "communicate", *(e.kind for lane in self.lanes for e in lane)]))
        last = max((e.round for lane in self.lanes for e in lane), default=0)
        lanes = [_packed([e for e in lane if e.round <= max_rounds], kinds) for lane in self.lanes]
        return {"kinds": kinds, "lanes": lanes, "shown": min(max_rounds, last), "rounds": last}


def read_schedule(run: Run) -> Schedule | None:
    """Return a run's schedule; None if it has none that can be read."""
    try:
        text = read_text(run.folder / "timeline.json")
        if run.status == UNFINISHED:
            text = _closed(text)
        events = json.loads(text)["traceEvents"]
        lanes: dict[int, list[Event]] = {}
        for event in events:
            if event["ph"] == "X":
                lanes.setdefault(int(event["tid"]), []).append(_event(event))
    except (RunFolderError, ValueError, KeyError, TypeError, RecursionError):
        return None
    count = len(run.names)
    if not lanes or not 0 <= min(lanes) <= max(lanes) < count:
        return None
    ordered = (sorted(lanes.get(k, ()), key=lambda e: (e.start, e.round)) for k in range(count))
    return Schedule(tuple(map(tuple, ordered)))


def _closed(text: str) -> str:
    """Return a timeline that is still being written, ended after its last whole event."""
    return text[: text.rfind("}}") + 2] + "]}" if not text.rstrip().endswith("}}}") else text


def _event(event: dict[str, Any]) -> Event:
    start, length = (float(event[key]) / MICROSECONDS_PER_UNIT for key in ("ts", "dur"))
    return Event(str(event["name"]), int(event["args"]["round"]), start, length)


def _packed(lane: list[Event], kinds: list[str]) -> dict[str, Any]:
    now, round_, steps, gaps, lengths = 0.0, 0, [], [], []
    for event in lane:
        gap, length = short(event.start - now), short(event.length)
        if abs(gap) < 1e-6 * max(1.0, event.start):
            gap = 0.0
        now += gap + length
        steps.append(event.round - round_)
        round_ = event.round
        gaps.append(short(gap))
        lengths.append(length)
    letters = "".join(chr(97 + min(kinds.index(event.kind), 25)) for event in lane)
    return {"kinds": letters, "steps": steps, "gaps": gaps, "lengths": lengths}


def short(value: float, digits: int = 6) -> float:
    """Return a number in fewer digits; whole ones as such, so that they take no room for ``.0``."""
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded
