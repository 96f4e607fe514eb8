"""Jobs side by side: results as they end, lost ones again, a stop that keeps what is done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest

from flexray.core.errors import ConfigError, LostProcessError, ResourceError
from flexray.engine.hosts.jobs import MOST_LOSSES, Jobs


def gone(node: str) -> LostProcessError:
    return LostProcessError("a job", "its process", f"node {node} is gone")


class Calls:
    """A pool of three processes whose outcomes are given: one list for each item, one outcome for each try."""

    def __init__(self, outcomes: dict[str, list[Any]], full: int | None = None) -> None:
        self.outcomes, self.checks, self.cancelled, self._ended = outcomes, 0, [], []
        self._last_check = full

    def submit(self, work: Callable[[str], Any], item: str) -> Any:
        outcome = self.outcomes[item].pop(0) if item in self.outcomes else work(item)
        return outcome, object()

    def ready(self, calls: Sequence[Any], timeout_s: float) -> list[Any]:
        self._ended += (found := list(calls)[2::-1])
        return found

    def result(self, call: Any) -> Any:
        if call in self.cancelled:
            raise CancelledError
        if isinstance(call[0], Exception):
            raise call[0]
        return call[0]

    def cancel(self, call: Any) -> None:
        if call not in self._ended:
            self.cancelled.append(call)

    def check(self) -> None:
        self.checks += 1
        if self.checks == self._last_check:
            raise ResourceError("no node is left")


def jobs(pool: Calls, items: str = "abcd") -> Jobs[str, Any]:
    return Jobs(pool, str.upper, dict(enumerate(items)))


def test_results_come_as_jobs_end_and_what_raised_is_its_own_result() -> None:
    wrong = ConfigError("lr: expected a number")
    assert list(jobs(Calls({"b": [wrong]})).run()) == [(2, "C"), (1, wrong), (0, "A"), (3, "D")]


def test_what_a_node_took_along_runs_again_and_one_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    pool = Calls({"a": [gone("10.0.0.2"), "A"], "c": [gone("10.0.0.2"), "C"]})
    with caplog.at_level(logging.WARNING, "flexray"):
        assert dict(jobs(pool).run()) == {0: "A", 1: "B", 2: "C", 3: "D"}
    assert caplog.messages == ["node 10.0.0.2 is gone; jobs 2, 0 run again"]
    assert pool.checks == 2


def test_a_job_that_takes_its_process_along_each_time_is_given_up() -> None:
    lost = gone("10.0.0.2")
    pool = Calls({"b": [lost] * (MOST_LOSSES + 1)})
    assert dict(jobs(pool).run()) == {0: "A", 1: lost, 2: "C", 3: "D"}
    assert pool.outcomes["b"] == []


def test_without_a_node_for_it_a_lost_job_does_not_wait_for_ever() -> None:
    running = jobs(Calls({"c": [gone("10.0.0.2"), "C"]}, full=2)).run()
    assert [next(running) for _ in range(2)] == [(1, "B"), (0, "A")]
    with pytest.raises(ResourceError, match="no node is left"):
        list(running)


def test_a_stop_keeps_what_is_done_and_begins_nothing_more() -> None:
    pool = Calls({"b": [gone("10.0.0.2")]})
    running, found = jobs(pool), []
    for number, result in running.run():
        found.append((number, result))
        running.stop()
    assert found == [(2, "C"), (0, "A")]
    assert {call[0] for call in pool.cancelled} == {"D"}
