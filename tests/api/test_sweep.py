"""Sweeps from Python: their tables, runs that fail, and what goes on."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import flexray
from flexray.algorithms.flex import FlexVFL
from flexray.core.errors import ConfigError, RunFolderError, UserError
from flexray.report.contents import Wanted, make_report
from flexray.report.tables import make_table
from flexray.run.command import run_command
from helpers.pools import CopyingPool

SHORT: dict[str, Any] = {"progress": False, "rounds": 2, "model": {"hidden": [4]}, "dataset": {"batch_size": 512},
                         "timeout": 4, "eval_train": False}  # fmt: skip
WORDS = ("cluster=inline", "progress=false", "rounds=2", "model.hidden=[4]", "dataset.batch_size=512", "timeout=4",
         "eval_train=false")  # fmt: skip


class Broken(nn.Linear):
    """Raises in its forward pass."""

    def forward(self, input: Any) -> Any:
        raise KeyError("no such thing")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> CopyingPool:
    made = CopyingPool()
    monkeypatch.setattr("flexray.api.sweep.open_pool", lambda *words, **keys: made)
    return made


def test_it_is_the_sweep_of_the_command_and_its_table_that_of_the_report(tmp_path: Path) -> None:
    found = flexray.sweep({"algo": ["flex", "pbcd"]}, seeds=2, **SHORT, folder=tmp_path / "python")
    command = ["-m", *WORDS, "algo=flex,pbcd", "seed=1,2", f"hydra.sweep.dir={tmp_path / 'command'}"]
    assert run_command(command) == 0
    typed = flexray.read(tmp_path / "command")
    assert isinstance(typed, flexray.Sweep)
    assert found.runs.equals(typed.runs)
    assert found.runs.columns[:3].tolist() == ["algo", "seed", "status"]
    assert [run.folder.name for run in found] == found.runs.index.tolist() == ["0", "1", "2", "3"]
    for a, b in zip(found, typed, strict=True):
        assert a.summary["model_digest"] == b.summary["model_digest"]
    report = make_report([tmp_path / "command"], Wanted(("test_top1", 0.1)))
    printed = make_table(report.results, report.papers)
    shown = found.table(target=0.1).drop(columns="notes", errors="ignore")
    assert shown.columns.tolist() == [*printed.header]
    cells = [[cell.text.partition(" [")[0] for cell in row] for row in printed.rows]
    assert shown.to_numpy().tolist() == cells
    assert found.plot("test_loss", by="rounds").axes
    assert repr(found) == "<Sweep of 4 runs: 4 completed>"


def test_runs_that_fail_are_kept_and_named_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = flexray.sweep([{"model": Broken}, {"lr": -1}, {}], seeds=1, **{**SHORT, "model": "mlp"}, folder=tmp_path)
    errors = ["upper_left failed in a first forward pass: KeyError: 'no such thing'", "lr: expected a positive number"]
    assert found.runs["status"].tolist() == ["error", "error", "completed"]
    assert [error.startswith(line) for error, line in zip(found.runs["error"], errors, strict=False)] == [True, True]
    assert found.runs["error"].isna().tolist() == [False, False, True]
    assert caplog.messages[0] == f"run 0 failed: {errors[0]}"
    assert errors[1] in found._repr_html_()
    again = flexray.read(tmp_path)
    assert isinstance(again, flexray.Sweep)
    assert again.runs.equals(found.runs)


def test_side_by_side_it_is_the_same_sweep_also_if_a_node_is_lost(
    pool: CopyingPool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = {"algo": ["flex", "pbcd"], "lr": [0.1, -1]}
    here = flexray.sweep(grid, seeds=1, **SHORT)
    pool.losses = 1
    there = flexray.sweep(grid, seeds=1, parallel=3, **SHORT, folder=tmp_path)
    assert there.runs.equals(here.runs)
    assert pool.submitted == 5
    assert "node 10.0.0.2 is gone; job 0 runs again" in caplog.messages
    assert not [run for run in there if "flexray-job-" in (run.folder / "run.log").read_text()]
    monkeypatch.setattr("flexray.engine.hosts.jobs.MOST_LOSSES", 0)
    pool.losses, pool.submitted = 1, 0
    lost = flexray.sweep({"lr": [0.1, 0.2]}, seeds=1, parallel="ray", **SHORT)
    assert lost.runs["error"].tolist()[:1] == ["a job failed in its process: node 10.0.0.2 is gone"]
    assert lost.runs[["lr", "status"]].to_numpy().tolist() == [[0.1, "error"], [0.2, "completed"]]


def test_the_same_call_again_does_what_is_missing_also_of_a_grown_grid(pool: CopyingPool, tmp_path: Path) -> None:
    keys = {**SHORT, "seeds": [4], "folder": tmp_path, "parallel": 2}
    flexray.sweep({"algo": ["flex", "pbcd"]}, **keys)
    with pytest.raises(RunFolderError, match="holds a run; expected another folder, resume='auto'"):
        flexray.sweep({"algo": ["flex", "pbcd"]}, **keys)
    (tmp_path / "1" / "summary.json").unlink()
    again = flexray.sweep({"algo": ["sync_max", "pbcd", "flex"]}, **keys, resume="auto")
    assert pool.submitted == 4
    assert again.runs["algo"].tolist() == ["sync_max", "pbcd", "flex"]
    assert again.runs.index[1:].tolist() == ["1", "0"]


class Interrupted(FlexVFL):
    """Ctrl-C is typed in the first round of the second seed."""

    begun = 0

    def plan(self, now: Any) -> Any:
        type(self).begun += now.round == 1
        if now.round == self.begun == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return super().plan(now)


def test_ctrl_c_ends_it_and_keeps_what_is_done(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"^stopped; 1 of 3 runs are done: flexray\.read\('.*'\) has them; "):
        flexray.sweep({"algo": [Interrupted]}, seeds=3, **{**SHORT, "rounds": 9}, folder=tmp_path)
    left = flexray.read(tmp_path)
    assert isinstance(left, flexray.Sweep)
    assert [run.status for run in left] == ["completed", "interrupted"]
    assert left[1].summary["rounds"] == 3


@pytest.mark.parametrize(
    ("grid", "keys", "line"),
    [
        ({"algo": ["flex", "flx"]}, {}, "algo: unknown choice 'flx'; did you mean 'flex'?"),
        ({}, {"parallel": 0}, "parallel: expected a whole number"),
        ({}, {"parallel": "all"}, "parallel: expected 1, a number of processes, or 'ray', got 'all'"),
        ({}, {"parallel": 2, "cluster": "local"}, "cluster: runs side by side have one process each; expected inline"),
        ({}, {"resume": "auto"}, "resume: a sweep goes on with resume='auto' beside folder=..."),
        ({}, {"parallel": "ray", "cluster": {"address": "ray://x"}}, "cluster.address: expected auto or HOST:PORT"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(grid: Any, keys: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as caught:
        flexray.sweep(grid, **{**SHORT, **keys})
    assert line in str(caught.value)


def test_a_list_of_settings_is_checked_as_a_grid_is(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(ConfigError, match=r"round: unknown key; did you mean"):
        flexray.sweep([["algo=flex"], ["round=3"]], **SHORT)
    assert not caplog.messages
