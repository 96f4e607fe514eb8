"""What the processes that Ray starts are given."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flexray.engine.hosts.ray.environment import batch_scheduling

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux has this policy alone")
ASK = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]


def policy_of_a_child() -> int:
    return int(subprocess.run(ASK, capture_output=True, text=True, check=True).stdout)


def test_what_starts_inside_is_batch_work_and_this_process_is_as_before() -> None:
    with batch_scheduling():
        inside = policy_of_a_child()
    assert inside == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert policy_of_a_child() == os.SCHED_OTHER


def test_it_ends_after_an_exception_too() -> None:
    with pytest.raises(KeyError), batch_scheduling():
        raise KeyError
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_policy_that_the_user_chose_stays() -> None:
    code = (
        "import os; from flexray.engine.hosts.ray.environment import batch_scheduling\n"
        "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
        "with batch_scheduling(): assert os.sched_getscheduler(0) == os.SCHED_IDLE\n"
        "assert os.sched_getscheduler(0) == os.SCHED_IDLE\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_container_that_forbids_it_runs_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    with batch_scheduling():
        assert policy_of_a_child() == os.SCHED_OTHER
