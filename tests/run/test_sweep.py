"""Sweeps: a folder per job, a table at the end, one Ray instance."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flexray.report.contents import Wanted, make_report
from flexray.report.folders import read_run
from flexray.report.statistics import with_deviation
from flexray.run.command import run_command
from flexray.run.watch.sweep import sweep_table


def test_a_sweep_leaves_a_folder_per_job_and_ends_with_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run_command([
        "-m", "algo=flex,sync_min,sync_max,pbcd,vafl,adaptive", "seed=1,2,3", "cluster=inline", "progress=false",
        f"hydra.sweep.dir={tmp_path}", "rounds=12", "eval_every=4", "target=0.3", "eval_train=false", "timeout=4",
        "dataset.batch_size=64",
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
        assert (time == "--") == (len(times) < 3)
    assert 0 < sum(time == "--" for _, time, _ in rows.values()) < 6


def test_the_table_of_a_sweep_says_what_its_report_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from helpers.made_runs import sweep

    folders = sorted(sweep(tmp_path / "runs").iterdir())
    runs = [read_run(folder, folder.name) for folder in folders]
    summaries = [
        {
            **run.summary,
            "config": run.config,
            "final": {run.metric: run.final},
            "time_to_target": found.time if (found := run.reached()) else None,
        }
        for run in runs
    ]
    made = sweep_table([*summaries, {**summaries[0], "status": "interrupted"}, {**summaries[3], "status": "failed"}])
    Console(width=120).print(made)
    said = capsys.readouterr().out
    reported = make_report([tmp_path / "runs"], Wanted())
    for result in reported.results:
        time, final = with_deviation(result.spreads["time"]), with_deviation(result.final, 4)
        reached = f"{len(result.reached)} of {result.runs}"
        cells = r" +│ +".join(map(re.escape, (time, reached, final)))
        assert re.search(rf"│ {result.group.values['algo']} .*│ +{cells} │", said), said
    assert "not counted: 1 interrupted, 1 failed" in said
    assert "80" not in said  # the one run of VAFL that reached the target


def job(seed: int, time: float | None, lr: float = 0.1, **more: Any) -> dict[str, Any]:
    """Return the summary of a job as a session keeps it."""
    return {
        "algo": "flex", "dataset": "digits", "metric": "test_top1", "target": 0.9, "time_unit": "units", "seed": seed,
        "status": "completed", "time_to_target": time, "final": {"test_top1": 0.95},
        "config": {"seed": seed, "lr": lr}, **more,
    }  # fmt: skip


def said(summaries: list[dict[str, Any]]) -> list[list[str]]:
    """Return the cells of the table's lines; the lines below it have one each."""
    file = io.StringIO()
    Console(file=file, width=160).print(sweep_table(summaries))
    return [[cell.strip() for cell in line.strip("│┃ ").split("│")] for line in file.getvalue().splitlines()]


def test_rows_are_the_groups_of_the_report_so_that_no_swept_key_is_averaged_over() -> None:
    for summaries, rows in (
        ([job(1, 10), job(2, 20)], [["15.00 ± 7.07", "2 of 2"]]),
        ([job(1, 10), job(2, 20), job(1, 30, 0.2), job(2, None, 0.2)], [["15.00 ± 7.07", "2 of 2"], ["--", "1 of 2"]]),
        ([job(3, 10), job(3, 20, 0.2)], [["10.00", "1 of 1"], ["20.00", "1 of 1"]]),
        ([job(3, 10), job(3, 20)], [["20.00", "1 of 1"]]),
    ):
        found = [cells for cells in said(summaries) if cells[0] == "flex"]
        assert [cells[-3:-1] for cells in found] == rows
        assert [cells[2] for cells in found] == (["0.1", "0.2"] if len(rows) > 1 else ["test_top1 ≥ 0.9"])


def test_a_line_below_the_table_says_how_far_apart_evaluations_are() -> None:
    below = said([job(1, 53.0, apart=20.0), job(2, None, apart=600.0)])[-1]
    assert below == ["time to target is read at evaluations, which are 20 to 600 units apart"]
    assert "evaluations" not in str(said([job(1, 53.0, apart=None)]))


def test_without_a_target_the_table_says_what_came_out() -> None:
    table = said([job(seed, None, target=None) for seed in (1, 2)])
    assert table[0] == ["at the end"]
    assert ["flex", "digits", "2", "0.9500 ± 0.0000"] in table
    assert "target" not in str(table)


def test_a_seed_that_is_run_again_counts_once_in_the_table_as_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run_command([
        "-m", "algo=flex", "seed=1,1,2", "progress=true,false", "cluster=inline", f"hydra.sweep.dir={tmp_path}",
        "rounds=4", "target=0.05", "eval_train=false", "timeout=4",
    ])  # fmt: skip
    assert status == 0
    table = capsys.readouterr().out.split("time to target (units)")[1]
    (reported,) = make_report([tmp_path], Wanted()).results
    assert f"{len(reported.reached)} of {reported.runs}" == "2 of 2"
    assert "2 of 2" in table
    assert "not counted: 4 with the same seed again" in table


def test_a_relative_path_is_the_users_with_and_without_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from helpers.jobs import save_bundle

    save_bundle(tmp_path / "data", {"a": (2,), "b": (3,)})
    monkeypatch.chdir(tmp_path)
    common = ("cluster=inline", "dataset=bundle", "dataset.path=data", "dataset.batch_size=8", "rounds=2")
    for chdir in ("true", "false"):
        assert run_command([*common, f"hydra.job.chdir={chdir}", f"hydra.run.dir=out_{chdir}"]) == 0
        assert (tmp_path / f"out_{chdir}" / "summary.json").is_file()
