"""``hydra/launcher=ray``, with jobs that run on copies as another machine gets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flexray.run.command import run_command
from helpers.pools import CopyingPool

SMALL = ("-m", "cluster=inline", "dataset.batch_size=256", "timeout=4", "model.hidden=[8]", "target=0.1")
RAY = ("hydra/launcher=ray", "resume=auto")
LASTING = ("rounds.csv", "evals.csv", "timeline.json", "configuration.json", ".hydra/config.yaml",
           "checkpoints/final/server.safetensors")  # fmt: skip


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> CopyingPool:
    made = CopyingPool()
    monkeypatch.setattr("flexray.run.launcher.open_pool", lambda *words: made)
    return made


def table(said: str) -> str:
    return said.partition("time to target (units)")[2].partition("not counted")[0].replace("go on with", "")


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in LASTING}


def test_jobs_of_other_machines_come_home_as_if_they_had_run_here(
    pool: CopyingPool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = (*SMALL, "algo=flex,pbcd", "rounds=4")
    assert run_command([*command, "hydra.sweep.dir=here", "resume=auto"]) == 0
    expected = table(capsys.readouterr().out)
    pool.losses = 1
    assert run_command([*command, *RAY, "hydra.sweep.dir=there"]) == 0
    said = capsys.readouterr().out
    assert table(said) == expected
    assert "node 10.0.0.2 is gone; job 0 runs again" in said
    assert pool.submitted == 3
    for job in "01":
        assert content(tmp_path / "there" / job) == content(tmp_path / "here" / job)
        texts = [(tmp_path / "there" / job / name).read_text() for name in ("run.log", ".hydra/hydra.yaml")]
        assert all(f"{tmp_path}/there/{job}" in text and "flexray-job-" not in text for text in texts)


def test_what_is_missing_goes_out_with_its_checkpoints_and_what_is_done_stays(
    pool: CopyingPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (*SMALL, "seed=1,2", f"hydra.sweep.dir={tmp_path}/out")
    assert run_command([*command, "rounds=2", "resume=auto"]) == 0
    (tmp_path / "out" / "1" / "summary.json").unlink()
    done = tmp_path / "out" / "0" / "summary.json"
    assert run_command([*command, "rounds=2", *RAY]) == 0
    assert pool.submitted == 1
    before = done.read_bytes()
    capsys.readouterr()
    assert run_command([*command, "rounds=4", *RAY]) == 0
    assert pool.submitted == 3
    assert done.read_bytes() != before
    assert all('"resumed_from": 2' in path.read_text() for path in tmp_path.glob("out/*/summary.json"))
    assert run_command([*command, "rounds=4", *RAY]) == 0
    assert pool.submitted == 3
    assert capsys.readouterr().out.count("completed before, in") == 2


def test_a_job_that_fails_is_named_and_the_others_go_on(
    pool: CopyingPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (*SMALL, "lr=0.1,-1", "rounds=2", *RAY[:1], f"hydra.sweep.dir={tmp_path}/out")
    assert run_command([*command]) == 2
    said = capsys.readouterr()
    assert re.search(r"^flexray: job 1 \(.*lr=-1.*\): lr: expected a positive number, got -1$", said.err, re.M)
    assert said.out.count("1 of 1") == 1
    assert "lr: expected" in (tmp_path / "out" / "1" / "run.log").read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["cluster=inline,packed"], "cluster: hydra/launcher=ray runs each job in one process; expected inline, got p"),
        (["logger=mlflow"], "logger.uri: jobs run on other machines; expected the address of a server for mlflow"),
        (["hydra.launcher.num_cpus=0"], "hydra.launcher.num_cpus: expected a positive number, got 0"),
    ],
)
def test_what_cannot_run_there_is_refused_before_anything_runs(
    words: list[str], line: str, pool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([*SMALL, "seed=1,2", *RAY[:1], f"hydra.sweep.dir={tmp_path}/out", *words]) == 2
    assert f"flexray: {line}" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["multirun.yaml"]


def test_an_address_is_one_of_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*SMALL, "seed=1,2", *RAY[:1], f"hydra.sweep.dir={tmp_path}/out", "hydra.launcher.address=ray://x"]
    assert run_command(command) == 2
    assert "hydra.launcher.address: expected auto or HOST:PORT" in capsys.readouterr().err
