"""Times are called units on the virtual clock and seconds on the wall clock, wherever a person reads them."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from rich.console import Console

from flexray.core.messages import EvalRecord, RoundRecord, Started
from flexray.run.watch.sweep import sweep_table
from flexray.run.watch.terminal import ProgressObserver

ROUND = RoundRecord(1, 0.0, 1.25, 1.25, (2, 2), (0.1, 0.1), (0.0, 0.0), 0.0, (1.0, 1.0), 0.5, 0, (), ())


def shown(unit: str, terminal: bool) -> str:
    """Return what a run limited by time shows of a round and an evaluation."""
    file = io.StringIO()
    observer = ProgressObserver("test_top1", 7.5, unit, Console(file=file, force_terminal=terminal, width=150))
    for record in (
        Started(("a", "server"), None, 4),
        ROUND,
        EvalRecord(1, 0.25, 1.25, {"test_top1": 0.5, "test_loss": 1}),
    ):
        observer.on(record)
    observer.close()
    return file.getvalue()


@pytest.mark.parametrize(
    ("unit", "words"), [("units", ["7.5 units", "time 1 "]), ("seconds", ["7.5 seconds", "time 1.25 s "])]
)
def test_lines(unit: str, words: list[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="flexray"):
        shown(unit, terminal=False)
    assert all(word in caplog.text for word in words), caplog.text


@pytest.mark.parametrize(("unit", "words"), [("units", ["units", "time 1 "]), ("seconds", ["seconds", "time 1.25 s "])])
def test_progress_bar(unit: str, words: list[str]) -> None:
    text = shown(unit, terminal=True)
    assert all(word in text for word in words), text


def summary(unit: str, time: float) -> dict[str, Any]:
    return {
        "algo": "flex", "dataset": "digits", "seed": time, "status": "completed", "metric": "test_top1", "target": 0.9,
        "time_unit": unit, "time_to_target": time, "final": {"test_top1": 0.95},
        "config": {"seed": time},
    }  # fmt: skip


def test_a_sweep_over_both_clocks_keeps_them_apart() -> None:
    file = io.StringIO()
    console = Console(file=file, width=150)
    console.print(sweep_table([summary("seconds", 2.0), summary("units", 30.0), summary("units", 50.0)]))
    text = file.getvalue()
    assert "time to target (seconds or units)" in text
    assert " 2.000 seconds" in text
    assert "40.00 ± 14.14 units" in text
    file.truncate(0)
    console.print(sweep_table([summary("seconds", 2.0)]))
    assert "time to target (seconds)" in file.getvalue()
