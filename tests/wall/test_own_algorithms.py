"""A user's own algorithms in real seconds, with a participant that is fully used by others."""

from __future__ import annotations

import json
import sys
import types

import pytest

from flexray.algorithms.base import Moment, Plan, RoundAlgorithm
from helpers.wall_runs import RunFolder, rows


class Three(RoundAlgorithm):
    """Three iterations each, however long they take."""

    def plan(self, now: Moment) -> Plan:
        return self.make_plan(now, self.same_for_all(3), 1.0, pace="slowest")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_algorithms")
    module.Three = Three  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_algorithms", module)


AT_REST = ("clock=wall", "timeout=0.02", "rounds=3", "speeds=uniform", "speeds.utilization={b:1,default:0}")


def test_it_takes_all_its_iterations_at_the_largest_utilization_that_counts(run_folder: RunFolder) -> None:
    folder = run_folder("own", "algo._target_=my_algorithms.Three", *AT_REST)
    assert [json.loads(row["tau"]) for row in rows(folder)] == [[3, 3, 3, 3]] * 3
    assert [json.loads(row["utilization"])[1] for row in rows(folder)] == [0.99] * 3
