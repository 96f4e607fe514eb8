"""Signals while the command is in the middle of something."""

from __future__ import annotations

import signal
import threading

import pytest

from flexray.run.interrupts import Interrupts


def test_a_signal_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come while another one is being started, with locks held that a handler would wait for."""
    stopped, started = threading.Event(), list[threading.Thread]()
    with Interrupts() as interrupts:
        interrupts.arm(stopped.set)
        monkeypatch.setattr(threading.Thread, "start", started.append)
        signal.raise_signal(signal.SIGINT)
        assert stopped.wait(10)
        assert interrupts.seen
    assert not started


def test_after_a_lost_process_the_new_run_is_stopped_too() -> None:
    calls: list[str] = []
    second = threading.Event()
    with Interrupts() as interrupts:
        interrupts.arm(lambda: calls.append("first"))
        signal.raise_signal(signal.SIGTERM)
        interrupts.arm(second.set)
        assert second.wait(10)
    assert len(calls) <= 1


def test_the_second_signal_ends_at_once_and_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        interrupts.arm(lambda: None)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_nothing_runs_on_afterwards() -> None:
    for _ in range(20):
        with Interrupts() as interrupts:
            interrupts.arm(lambda: None)
        assert "flexray-stop" not in [thread.name for thread in threading.enumerate()]
