"""What the processes that Ray starts are given."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

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
    seen = []

    def user() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # of this thread alone
        with batch_scheduling():
            seen.append(os.sched_getscheduler(0))
        seen.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=user)
    thread.start()
    thread.join()
    assert seen == [os.SCHED_IDLE] * 2


def test_a_container_that_forbids_it_runs_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    with batch_scheduling():
        assert policy_of_a_child() == os.SCHED_OTHER
