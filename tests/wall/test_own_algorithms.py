"""A user's own algorithms in real seconds, with a participant that is fully used by others."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from flexray.algorithms.base import EventAlgorithm, Moment, Plan, RoundAlgorithm
from flexray.run import run_command

from .conftest import SMALL, RunFolder, rows


class Turns(EventAlgorithm):
    """Does not mind utilizations."""

    def turn_units(self, party: int, now: Moment) -> float:
        return 1.0

    def plan(self, party: int, now: Moment) -> Plan:
        count = len(self.system.names)
        tau = tuple(int(k in (party, count - 1)) for k in range(count))
        return Plan(tau, self.system.lr, 1.0, 0.0, (1.0,) * count)


class Three(RoundAlgorithm):
    """Three iterations each, however long they take."""

    def plan(self, now: Moment) -> Plan:
        return self.make_plan(now, self.same_for_all(3), 1.0, pace="slowest")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_algorithms")
    module.Turns, module.Three = Turns, Three  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_algorithms", module)


AT_REST = ("clock=wall", "timeout=0.02", "rounds=3", "speeds=uniform", "speeds.utilization={b:1,default:0}")


def test_a_turn_that_would_never_end_is_refused(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*SMALL, f"dataset.path={bundle}", f"hydra.run.dir={tmp_path}", "algo._target_=my_algorithms.Turns"]
    assert run_command([*command, *AT_REST]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("flexray: speeds: b is at utilization 1 at 0 s, so its turn would never end; expected a")


def test_in_a_round_it_takes_one_iteration(run_folder: RunFolder) -> None:
    folder = run_folder("own", "algo._target_=my_algorithms.Three", *AT_REST)
    assert [json.loads(row["tau"]) for row in rows(folder)] == [[3, 1, 3, 3]] * 3
