"""Ctrl-C in this process: what is counted, which round is told, and the command that goes on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flexray.config.typed import parser
from flexray.run.command import run_command
from flexray.run.hints import sweep_again
from flexray.run.watch.summary import SummaryObserver

SMALL = (
    "cluster=inline",
    "dataset.batch_size=256",
    "timeout=4",
    "rounds=30",
    "eval_every=16",
    "model.hidden=[8]",
    "eval_train=false",
)


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Return a function that makes Ctrl-C come in a round of the n-th job."""
    import signal

    told = SummaryObserver.on
    jobs: list[Any] = []

    def set_up(job: int, at_round: int) -> None:
        def on(self: SummaryObserver, record: Any) -> None:
            if self not in jobs:
                jobs.append(self)
            told(self, record)
            if len(jobs) == job and type(record).__name__ == "RoundRecord" and record.round == at_round:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(SummaryObserver, "on", on)

    return set_up


def test_a_table_says_of_which_round_its_metrics_are(
    stop: Callable[[int, int], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stop(1, 17)
    assert run_command([*SMALL, f"hydra.run.dir={tmp_path}/out"]) == 1
    said = capsys.readouterr().out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["status"], summary["final_round"]) == ("interrupted", 16)
    assert summary["rounds"] > 16
    assert "test top1 at round 16" in said
    assert f"interrupted; go on with: python -m flexray.run resume={tmp_path}/out" in said
    assert run_command([f"resume={tmp_path}/out"]) == 0
    assert "at round" not in capsys.readouterr().out.partition("flex on digits: completed")[2]


def test_an_interrupted_sweep_says_the_command_that_does_what_is_missing(
    stop: Callable[[int, int], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stop(2, 2)
    assert run_command(["-m", *SMALL, "seed=1,2,3", f"hydra.sweep.dir={tmp_path}/a sweep".replace(" ", "_")]) == 130
    said = capsys.readouterr().out
    assert "job 1 of 3" in said
    assert "job 2 of 3" not in said  # it is not done
    assert "not counted: 1 interrupted" in said
    assert said.count("go on with: ") == 1
    (line,) = [line for line in said.splitlines() if line.startswith("go on with: python -m flexray.run ")]
    again = shlex.split(line)[6:]
    assert again[-2:] == ["resume=auto", f"hydra.sweep.dir={tmp_path}/a_sweep"]
    assert run_command(again) == 0
    said = capsys.readouterr().out
    assert "completed before, in" in said
    assert [json.loads((tmp_path / "a_sweep" / job / "summary.json").read_text())["status"] for job in "012"] == [
        "completed"
    ] * 3
    assert "go on with" not in said


@pytest.mark.parametrize("folder", ["multirun/2026-01-31/10-20-30", "my sweep, é", "it's (1)=2"])
def test_any_folder_comes_through_the_shell_and_hydra(folder: str) -> None:

    typed = ["-m", "seed=1,2", "resume=auto", "hydra.sweep.dir=x", "model.hidden=[8]"]
    *same, resume, place = shlex.split(shlex.join(sweep_again(typed, folder)))
    assert same == ["-m", "seed=1,2", "model.hidden=[8]"]
    assert resume == "resume=auto"
    assert parser().parse_override(place).value() == folder
