"""Sweeps: a folder per job, a table at the end, one Ray instance."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flexray.run import run_command


def test_a_sweep_leaves_a_folder_per_job_and_ends_with_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run_command([
        "-m", "algo=flex,sync_min,sync_max,pbcd,vafl,adaptive", "seed=1,2,3", "cluster=inline", "progress=false",
        f"hydra.sweep.dir={tmp_path}", "rounds=12", "eval_every=4", "target=0.3", "eval_train=false",
    ])  # fmt: skip
    assert status == 0
    summaries = [json.loads((tmp_path / str(job) / "summary.json").read_text()) for job in range(18)]
    assert [(s["algo"], s["seed"]) for s in summaries[:4]] == [("flex", 1), ("flex", 2), ("flex", 3), ("sync_min", 1)]
    table = capsys.readouterr().out.split("time to target (units)")[1]
    rows = {row[0]: row for row in re.findall(r"│ (\w+) +│ digits +│ [^│]+│ +([^│]+?) +│ +(\d) of 3 │", table)}
    assert set(rows) == {"flex", "sync_min", "sync_max", "pbcd", "vafl", "adaptive"}
    for algo, time, reached in rows.values():
        times = [s["time_to_target"] for s in summaries if s["algo"] == algo and s["time_to_target"] is not None]
        assert int(reached) == len(times)
        mean = sum(times) / len(times) if times else None
        assert time == "--" if mean is None else time.startswith(f"{mean:,.6g} ±")


def test_a_relative_path_is_the_users_with_and_without_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from conftest import save_bundle

    save_bundle(tmp_path / "data", {"a": (2,), "b": (3,)})
    monkeypatch.chdir(tmp_path)
    common = ("cluster=inline", "dataset=bundle", "dataset.path=data", "dataset.batch_size=8", "rounds=2")
    for chdir in ("true", "false"):
        assert run_command([*common, f"hydra.job.chdir={chdir}", f"hydra.run.dir=out_{chdir}"]) == 0
        assert (tmp_path / f"out_{chdir}" / "summary.json").is_file()
