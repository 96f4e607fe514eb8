"""``timeline.json`` keeps to Chrome's trace-event format, which Perfetto and chrome://tracing open.

The rules are those of the document "Trace Event Format" (JSON Object Format, complete events, metadata events).
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flexray.run.command import run_command

ALGORITHMS = ("flex", "sync_max", "vafl")


def faults(trace: Any) -> list[str]:
    """Return what is wrong with a trace by the format's rules."""
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["expected an object with a list of traceEvents"]
    found = []
    if trace.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append("displayTimeUnit")
    for place, event in enumerate(trace["traceEvents"]):
        found += [f"event {place}: {fault}" for fault in event_faults(event)]
    return found


def event_faults(event: dict[str, Any]) -> list[str]:
    found = [key for key in ("name", "ph") if not isinstance(event.get(key), str)]
    found += [key for key in ("pid", "tid") if type(event.get(key)) is not int]
    found += [] if isinstance(event.get("args", {}), dict) else ["args"]
    if event.get("ph") == "M":
        named = event.get("name") in ("process_name", "thread_name") and isinstance(event["args"].get("name"), str)
        found += [] if named else ["metadata"]
    elif event.get("ph") == "X":
        for key in ("ts", "dur"):
            value = event.get(key)
            if type(value) not in (int, float) or not 0 <= value < math.inf:
                found.append(key)
        found += [] if isinstance(event.get("cat"), str) else ["cat"]
    else:
        found.append("ph")
    return found


def overlaps(events: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return spans of one thread that begin before the one before has ended: viewers would nest or drop them."""
    spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events)
    return [b for a, b in pairwise(spans) if b[0] < a[1] - 1e-6 * max(1.0, a[1])]


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_runs_timeline_keeps_to_the_format(algo: str, tmp_path: Path) -> None:
    status = run_command([
        f"algo={algo}", "cluster=inline", "progress=false", "rounds=6", "timeline_rounds=4", "eval_train=false",
        f"hydra.run.dir={tmp_path}",
    ])  # fmt: skip
    assert status == 0
    trace = json.loads((tmp_path / "timeline.json").read_text())
    assert faults(trace) == []
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert names == {0: "upper_left", 1: "upper_right", 2: "lower_left", 3: "lower_right", 4: "server"}
    assert {e["tid"] for e in spans} <= set(names)
    for k in names:
        assert not overlaps([e for e in spans if e["tid"] == k])
    assert trace["otherData"] == {"rounds": 6, "rounds_shown": 4}


@pytest.mark.parametrize(
    ("change", "fault"),
    [({"ph": "Z"}, "ph"), ({"ts": "0"}, "ts"), ({"dur": -1.0}, "dur"), ({"tid": "a"}, "tid"), ({"cat": None}, "cat"),
     ({"name": None}, "name"), ({"args": []}, "args")],
)  # fmt: skip
def test_the_check_sees_faults(change: dict[str, Any], fault: str) -> None:
    good = {"name": "compute", "cat": "x", "ph": "X", "pid": 0, "tid": 0, "ts": 0.0, "dur": 1.0, "args": {}}
    assert faults({"traceEvents": [good]}) == []
    assert faults({"traceEvents": [{**good, **change}]}) == [f"event 0: {fault}"]
    assert faults([]) != []
