"""``timeline.json``: who computed, communicated and waited when, in Chrome's trace-event format.

Open it in Perfetto or chrome://tracing. One unit of simulated time is shown as one millisecond.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flexray.messages import Record, RoundRecord, Started
from flexray.observers.base import Observer
from flexray.observers.folder import open_new

MICROSECONDS_PER_UNIT = 1000.0


class TimelineObserver(Observer):
    """Writes the first ``max_rounds`` rounds (VAFL: events) of the virtual schedule."""

    def __init__(self, folder: Path, max_rounds: int) -> None:
        self._file = open_new(folder / "timeline.json")
        self._max_rounds = max_rounds
        self._file.write('{"displayTimeUnit": "ms", "traceEvents": [')
        self._separator = "\n"
        self._total = 0

    def on(self, record: Record) -> None:  # noqa: D102
        if isinstance(record, Started):
            self._write(_metadata("process_name", 0, "simulated time, 1 unit = 1 ms"))
            for place, name in enumerate(record.names):
                self._write(_metadata("thread_name", place, name))
        elif isinstance(record, RoundRecord):
            self._total += 1
            if self._total <= self._max_rounds:
                for event in round_events(record):
                    self._write(event)

    def _write(self, event: dict[str, Any]) -> None:
        self._file.write(self._separator + json.dumps(event))
        self._separator = ",\n"

    def close(self) -> None:  # noqa: D102
        shown = min(self._total, self._max_rounds)
        self._file.write(f'\n], "otherData": {{"rounds": {self._total}, "rounds_shown": {shown}}}}}\n')
        self._file.close()


def round_events(record: RoundRecord) -> list[dict[str, Any]]:
    """Return the complete events of one round: everyone computes, waits for the others and communicates."""
    shown = range(len(record.tau)) if record.party is None else (record.party,)
    together = record.duration - record.comm_units
    events = []
    for k in shown:
        busy = min(record.tau[k] * record.unit_times[k], together) if record.tau[k] else 0.0
        about = {"round": record.round, "tau": record.tau[k], "lr": record.lr[k]}
        start = record.start_units
        spans = (("compute", start, busy), ("wait", start + busy, together - busy))
        events += [_event(name, k, begin, length, about) for name, begin, length in spans if length > 0]
        events.append(_event("communicate", k, start + together, record.comm_units, about))
    return events


def _event(name: str, place: int, start: float, length: float, about: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name, "cat": "flexray", "ph": "X", "pid": 0, "tid": place,
        "ts": start * MICROSECONDS_PER_UNIT, "dur": length * MICROSECONDS_PER_UNIT, "args": about,
    }  # fmt: skip


def _metadata(name: str, place: int, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": 0, "tid": place, "args": {"name": value}}
