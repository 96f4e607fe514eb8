"""How many processes have started: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console
from rich.progress import Progress

from flexray.run.watch.terminal import progress_columns, setup_progress


def test_lines_tell_every_ten_seconds_how_many_have_started(caplog: pytest.LogCaptureFixture) -> None:
    seconds = [0.0]
    quiet = Console(file=io.StringIO())
    with (
        caplog.at_level(logging.INFO, "flexray"),
        setup_progress(34, quiet, now=lambda: seconds[0]) as show,
    ):
        for seconds[0], started in ((4, 2), (9.9, 5), (10, 6), (19.9, 11), (25, 12), (36, 33), (46, 34)):
            show(started)
    assert caplog.messages == [
        "started 6 of 34 processes", "started 12 of 34 processes", "started 33 of 34 processes",
    ]  # fmt: skip


def test_a_terminal_shows_a_bar_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=100)
    with caplog.at_level(logging.INFO, "flexray"), setup_progress(34, terminal) as show:
        show(12)
    assert "starting processes" in file.getvalue()
    assert "12/34" in file.getvalue()
    assert file.getvalue().endswith("\x1b[?25h")  # the cursor is back
    assert not caplog.messages


def test_in_a_sweep_the_bar_stands_beside_that_of_the_jobs_and_goes_also_after_a_failure() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    bars = Progress(*progress_columns(), console=terminal)
    bars.add_task("sweep", total=2, now="jobs")
    with bars:
        with setup_progress(34, terminal, bars) as show:
            show(12)
            shown = [(task.description, task.completed) for task in bars.tasks]
        assert shown == [("sweep", 0), ("starting processes", 12)]
        with pytest.raises(KeyboardInterrupt), setup_progress(34, terminal, bars):
            raise KeyboardInterrupt
        assert [task.description for task in bars.tasks] == ["sweep"]
        assert bars.live.is_started
