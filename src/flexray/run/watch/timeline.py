"""``timeline.json``: when participants computed, communicated and waited, in Chrome's trace-event format.

Open it in Perfetto or chrome://tracing. One unit of simulated time is shown as one millisecond, a second as a second.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typing_extensions import override

from flexray.core.messages import Record, RoundRecord, Started
from flexray.core.runfolder import TIMELINE_FILE
from flexray.run.watch.base import Observer, ObserverState
from flexray.run.watch.folder import cut, end_of, open_new

SCALES = {"units": (1e3, "simulated time, 1 unit = 1 ms"), "seconds": (1e6, "seconds")}
"""Microseconds of the file for one of ``time_unit``, and the name of the time in the viewer."""


class TimelineObserver(Observer):
    """Writes the first ``max_rounds`` rounds (VAFL: events) of the schedule.

    Args:
        folder: The run folder.
        max_rounds: Number of rounds to show.
        time_unit: Unit of simulated time.
        goes_on: Write on in the file that is there, from where :meth:`load` says.
    """

    def __init__(self, folder: Path, max_rounds: int, time_unit: str = "units", goes_on: bool = False) -> None:
        self._file = open_new(folder / TIMELINE_FILE, goes_on)
        self._max_rounds = max_rounds
        self._scale, self._caption = SCALES[time_unit]
        if not goes_on:
            self._file.write('{"displayTimeUnit": "ms", "traceEvents": [')
        self._separator = "\n"
        self._total = 0

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started) and self._separator == "\n":
            self._write(_metadata("process_name", 0, self._caption))
            for place, name in enumerate(record.names):
                self._write(_metadata("thread_name", place, name))
        elif isinstance(record, RoundRecord):
            self._total += 1
            if self._total <= self._max_rounds:
                for event in round_events(record, self._scale):
                    self._write(event)

    def _write(self, event: dict[str, Any]) -> None:
        self._file.write(self._separator + json.dumps(event))
        self._separator = ",\n"

    @override
    def save(self) -> ObserverState:
        return {"end": end_of(self._file), "separator": self._separator, "total": self._total}

    @override
    def load(self, state: ObserverState) -> None:
        cut(self._file, state["end"])
        self._separator, self._total = state["separator"], state["total"]

    @override
    def close(self) -> None:
        shown = min(self._total, self._max_rounds)
        self._file.write(f'\n], "otherData": {{"rounds": {self._total}, "rounds_shown": {shown}}}}}\n')
        self._file.close()


def round_events(record: RoundRecord, scale: float) -> list[dict[str, Any]]:
    """Return the events of one round: each participant computes, waits and communicates, or is absent.

    In a turn, a party may have waited for slower ones before.

    ``scale`` is microseconds per unit of time.
    """
    together = record.duration - record.comm_units
    away = {"round": record.round}
    events = [
        _event("absent", k, record.start_units * scale, record.duration * scale, away) for k in record.absent or ()
    ]
    for k in record.present:
        busy = busy_units(record, k)
        about = {"round": record.round, "tau": record.tau[k], "lr": record.lr[k]}
        begin, end = record.start_units, record.start_units + together
        spans = [
            ("compute", begin, busy),
            ("wait", begin + busy, together - busy),
            ("communicate", end, own_comm_units(record, k)),
            ("wait", end + own_comm_units(record, k), record.comm_units - own_comm_units(record, k)),
        ]
        if record.server_units:  # a turn's message travels at once, then waits for the server
            sent = begin + busy + record.comm_units
            spans[1:] = [("communicate", begin + busy, record.comm_units), ("wait", sent, together - busy)]
        if record.waited_units:
            spans.insert(0, ("wait", begin - record.waited_units, record.waited_units))
        for name, start, length in spans:
            if length > 0 or name == "communicate":
                events.append(_event(name, k, start * scale, length * scale, about))
    if record.server_units:
        start, about = record.sim_time - record.server_units, {"round": record.round, "tau": record.tau[-1]}
        events.append(_event("compute", len(record.tau) - 1, start * scale, record.server_units * scale, about))
    return events


def own_comm_units(record: RoundRecord, place: int) -> float:
    """Return the time until a participant's messages have arrived; the server waits for the last."""
    units = record.party_comm_units
    return record.comm_units if units is None or place == len(units) else min(units[place], record.comm_units)


def busy_units(record: RoundRecord, place: int) -> float:
    """Return the time that a participant computed in a round."""
    together = record.duration - record.comm_units
    return min(record.tau[place] * record.unit_times[place], together) if record.tau[place] else 0.0


def _event(name: str, place: int, start: float, length: float, about: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name, "cat": "flexray", "ph": "X", "pid": 0, "tid": place,
        "ts": start, "dur": length, "args": about,
    }  # fmt: skip


def _metadata(name: str, place: int, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": 0, "tid": place, "args": {"name": value}}
