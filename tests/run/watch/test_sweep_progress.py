"""One overall bar, or a line per job."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from flexray.run.command import run_command
from flexray.run.hints import say_how_far
from flexray.run.mailbox import Mailbox
from flexray.run.watch.sweep import SweepProgress, count_jobs
from flexray.run.watch.terminal import ProgressObserver
from helpers.records import ROUND, STARTED


@pytest.fixture
def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def clock(*times: float) -> Iterator[float]:
    yield from times


def test_lines_tell_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    times = clock(0, 10, 10, 10, 14, 14, 14, 30, 30)
    progress = SweepProgress(3, Console(file=io.StringIO()), now=lambda: next(times))
    with caplog.at_level(logging.INFO, "flexray"):
        for _ in range(3):
            progress.job_ended()
    assert caplog.messages == [
        "job 1 of 3: 10.0 s; about 0:00:20 left",
        "job 2 of 3: 4.0 s; about 0:00:07 left",
        "job 3 of 3: 16.0 s",
    ]


def test_the_bar_counts_jobs_and_follows_the_rounds_of_each(terminal: Console) -> None:
    progress = SweepProgress(4, terminal)
    assert progress.bars is not None
    job = ProgressObserver("test_top1", console=terminal, shared=progress.bars)
    for record in (STARTED, ROUND):
        job.on(record)
        progress.on(record)
    assert [(task.description, task.completed, task.total) for task in progress.bars.tasks] == [
        ("sweep", 0.5, 4), ("round", 1, 2),
    ]  # fmt: skip
    job.close()
    progress.close()
    progress.job_ended()
    assert [(task.description, task.completed, task.total) for task in progress.bars.tasks] == [("sweep", 1, 4)]
    assert progress.bars.live.is_started
    progress.stop()
    assert not progress.bars.live.is_started


@pytest.mark.parametrize(
    ("arguments", "jobs"),
    [
        (["-m", "algo=flex,vafl", "seed=1,2,3", "lr=0.1"], 6),
        (["-m", "seed=range(5)", "speeds.iterations=[1,2],[3,4]"], 10),
        (["--multirun", "seed=0"], 1),
        (["-m", "hydra/sweeper=optuna", "seed=1,2"], None),
        (["-m", "algo=glob(*)"], None),
        (["-m", "a b"], None),
    ],
)
def test_jobs_are_counted_as_hydra_does(arguments: list[str], jobs: int | None) -> None:
    assert count_jobs(arguments) == jobs


def test_axes_of_a_chosen_file_count_unless_they_are_typed() -> None:
    params = {"algo": "flex,vafl", "seed": "1,2,3"}
    assert count_jobs(["-m", "+experiment=mine"], params) == 6
    assert count_jobs(["-m", "+experiment=mine", "seed=1"], params) == 2
    assert count_jobs(["-m", "lr=0.1,0.2"], params) == 12


def test_a_sweep_tells_a_line_per_job_where_there_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run_command([
        "-m", "seed=1,2", "cluster=inline", "rounds=2", "eval_train=false", f"hydra.sweep.dir={tmp_path}",
    ])  # fmt: skip
    assert status == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("job ")]
    assert [line.split(":")[0] for line in lines] == ["job 1 of 2", "job 2 of 2"]
    assert "; about 0:0" in lines[0]
    assert lines[1].endswith(" s")


def test_a_job_is_not_done_before_it_has_ended(terminal: Console) -> None:
    progress = SweepProgress(2, terminal)
    assert progress.bars is not None
    for record in (STARTED, replace(ROUND, round=STARTED.rounds or 0)):
        progress.on(record)
    assert 0.99 < progress.bars.tasks[0].completed < 1
    progress.stop()


def test_jobs_in_other_processes_say_how_far_the_sweep_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = Mailbox()
    monkeypatch.setattr("flexray.run.mailbox.time.time", lambda: mailbox._made_s + 20.0)
    with caplog.at_level(logging.INFO, "flexray"):
        for job in range(3):
            mailbox.post(job, 0, None)
            say_how_far(mailbox, 3)
    assert caplog.messages == [
        "1 of 3 jobs done; about 0:00:40 left", "2 of 3 jobs done; about 0:00:10 left", "3 of 3 jobs done",
    ]  # fmt: skip
    mailbox.note_sweep("a folder")
    assert mailbox.sweep_folder == "a folder"
    assert [status for status, _ in mailbox.take()] == [0, 0, 0]
