"""Run folders that are damaged, unfinished or from a stranger: shown for what they are, never executed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flexray.config.overrides import chosen_name
from flexray.core.errors import DataError, RunFolderError
from flexray.core.runfolder import flatten, read_yaml
from flexray.report.contents import Wanted, make_report
from flexray.report.folders import find_runs, read_run
from flexray.report.runs import COMPLETED, DAMAGED, UNFINISHED
from helpers.made_runs import write_run


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "summary cut": (lambda f: cut(f / "summary.json", 30), "summary.json: is not valid JSON"),
    "summary no object": (lambda f: (f / "summary.json").write_text("[]"), "summary.json: expected a JSON object"),
    "summary deep": (lambda f: (f / "summary.json").write_text("[" * 100_000), "summary.json: is not valid JSON"),
    "summary no algo": (lambda f: replace(f / "summary.json", '"algo"', '"x"'), "algo: expected a text"),
    "summary target": (lambda f: replace(f / "summary.json", '"target": 0.9', '"target": []'), "target: expected a"),
    "status": (lambda f: replace(f / "summary.json", '"completed"', '"fine"'), "status: expected one of compl"),
    "no rounds": (lambda f: (f / "rounds.csv").unlink(), "rounds.csv: no such file"),
    "rounds lost": (lambda f: cut(f / "rounds.csv", 240), "rounds.csv, row"),
    "a round short": (lambda f: replace(f / "rounds.csv", '4,120.0,30.0,"[1, 4, 5]"', ""), "rounds.csv, row 5"),
    "tau not a list": (lambda f: replace(f / "rounds.csv", "[2, 4, 5]", "many"), "tau: expected a JSON list"),
    "tau of others": (lambda f: replace(f / "rounds.csv", "[1, 4, 5]", "[1, 4]"), "row 3: tau: expected 3 numbers"),
    "evals no number": (lambda f: replace(f / "evals.csv", "0.95", "high"), "evals.csv: test_top1: expected numbers"),
    "evals empty": (lambda f: cut(f / "evals.csv", 38), "evals.csv: has no rows"),
    "not text": (lambda f: (f / "rounds.csv").write_bytes(b"\xff\xfe\x00"), "rounds.csv: cannot be read: is not UTF-8"),
    "yaml object": (
        lambda f: (f / ".hydra" / "config.yaml").write_text("a: !!python/object/apply:os.system ['touch pwned']"),
        "config.yaml: is not plain YAML",
    ),
    "yaml bomb": (
        lambda f: (f / ".hydra" / "config.yaml").write_text(
            "a0: &a0 [x, x]\n" + "".join(f"a{k}: &a{k} [*a{k - 1}, *a{k - 1}]\n" for k in range(1, 40))
        ),
        "config.yaml: expected a configuration of at most",
    ),
    "yaml endless": (
        lambda f: (f / ".hydra" / "config.yaml").write_text("a: &a {b: *a}"), "config.yaml: expected a configuration"
    ),
    "yaml list": (lambda f: (f / ".hydra" / "config.yaml").write_text("[1]"), "config.yaml: expected a mapping"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_named_and_not_counted(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "0", seed=0)
    damage, words = DAMAGES[kind]
    damage(write_run(tmp_path / "runs" / "1", seed=1))
    report = make_report([tmp_path / "runs"], Wanted())
    assert [run.status for run in report.runs] == [COMPLETED, DAMAGED]
    assert words in report.runs[1].fault
    assert [r.runs for r in report.results] == [1]
    assert [w for w in report.warnings if w.startswith("run 1: damaged, not counted: ") and words in w]
    assert not (tmp_path / "pwned").exists()


def test_a_pipe_or_device_in_a_run_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("round,sim_time\n")
    kinds = (lambda p: os.mkfifo(p), lambda p: p.symlink_to("/dev/zero"), lambda p: p.symlink_to(tmp_path / "secret"))
    for name, make in zip("abc", kinds, strict=True):
        folder = write_run(tmp_path / name)
        (folder / "rounds.csv").unlink()
        make(folder / "rounds.csv")
        assert read_run(folder, name).fault == "rounds.csv: is no plain file"
    folder = write_run(tmp_path / "d")
    (folder / ".hydra").rename(tmp_path / "elsewhere")
    (folder / ".hydra").symlink_to(tmp_path / "elsewhere")
    assert read_run(folder, "d").fault == ".hydra: is a link; expected a plain folder of its own"


def test_a_run_that_is_still_writing_is_unfinished_and_not_counted(tmp_path: Path) -> None:
    write_run(tmp_path / "0", seed=0)
    running = write_run(tmp_path / "1", seed=1, finished=False)
    cut(running / "rounds.csv", (running / "rounds.csv").stat().st_size - 20)
    cut(running / "evals.csv", (running / "evals.csv").stat().st_size - 3)
    started = write_run(tmp_path / "2", seed=2, finished=False)
    for name in ("rounds.csv", "evals.csv", "timeline.json"):
        (started / name).unlink()
    report = make_report([tmp_path], Wanted())
    assert [run.status for run in report.runs] == [COMPLETED, UNFINISHED, UNFINISHED]
    assert [run.length for run in report.runs] == [4, 3, 0]
    assert (report.runs[1].text("algo"), report.runs[1].seed, report.runs[1].target) == ("flex", "1", 0.9)
    (result,) = report.results
    assert result.runs == 1
    assert "not counted, still running, killed or crashed: 1, 2" in result.notes
    assert "run 1: still running, killed or crashed: 3 rounds so far; not counted" in report.warnings


def test_a_run_without_summary_has_the_name_that_its_summary_would_have(tmp_path: Path) -> None:
    typed = ["algo._target_=own.MyAlgo", "+dataset._target_=own.Sines"]
    config = {"algo": {"_target_": "own.MyAlgo"}, "dataset": {"_target_": "own.Sines"}}
    crashed = write_run(tmp_path / "0", typed=typed, config=config, finished=False)
    cut(crashed / "rounds.csv", (crashed / "rounds.csv").read_bytes().index(b"\n") + 1)
    cut(crashed / "evals.csv", 0)
    run = read_run(crashed, "0")
    assert (run.status, run.fault, run.length) == (UNFINISHED, "", 0)
    choices = {"algo": "flex", "dataset": "digits"}
    names = [chosen_name(config, choices, group, typed) for group in ("algo", "dataset")]
    assert [run.text("algo"), run.text("dataset")] == names == ["myalgo", "sines"]


@pytest.mark.parametrize(
    ("status", "unit", "said"),
    [
        ("interrupted", "units", "interrupted after 4 rounds; it can be resumed; not counted"),
        ("interrupted", "seconds", "interrupted after 4 rounds; not counted"),
        ("failed", "units", "given up for lost processes after 4 rounds; it can be resumed; not counted"),
    ],
)
def test_a_run_that_was_stopped_is_shown_as_that_and_not_counted(
    status: str, unit: str, said: str, tmp_path: Path
) -> None:
    write_run(tmp_path / "0", seed=0, summary={"time_unit": unit})
    write_run(tmp_path / "1", seed=1, summary={"status": status, "time_unit": unit})
    report = make_report([tmp_path], Wanted())
    assert [(run.status, run.fault) for run in report.runs] == [(COMPLETED, ""), (status, "")]
    assert report.warnings == (f"run 1: {said}",)
    (result,) = report.results
    assert (result.runs, len(result.reached)) == (1, 1)
    assert f"not counted, {said.partition(' after ')[0]}: 1" in result.notes


@pytest.mark.parametrize("rounds", [2, 6])
def test_a_run_that_was_resumed_and_goes_on_is_unfinished(rounds: int, tmp_path: Path) -> None:
    """Its summary is that of the earlier end, its rows are cut back or already more."""
    write_run(tmp_path / "0", seed=0)
    going = write_run(tmp_path / "1", seed=1, summary={"status": "interrupted", "rounds": rounds})
    (going / "configuration.json").unlink()
    cut(going / "rounds.csv", (going / "rounds.csv").stat().st_size - 20)
    report = make_report([tmp_path], Wanted())
    assert [(run.status, run.length) for run in report.runs] == [(COMPLETED, 4), (UNFINISHED, 3)]
    assert report.results[0].runs == 1


def test_a_run_that_was_resumed_and_has_no_new_row_yet_is_unfinished(tmp_path: Path) -> None:
    going = write_run(tmp_path / "0", summary={"resumed_from": None})
    assert read_run(going, "0").status == COMPLETED
    (going / "configuration.json").unlink()
    assert read_run(going, "0").status == UNFINISHED


def test_a_run_without_an_evaluation_spoils_neither_the_target_nor_the_groups(tmp_path: Path) -> None:
    """The usual metric of its labels is that of the others."""
    config = {"target_metric": None}
    write_run(tmp_path / "0", seed=0, config=config)
    write_run(tmp_path / "1", seed=1, config=config, finished=False)
    started = write_run(tmp_path / "2", seed=2, config=config, finished=False)
    (started / "evals.csv").write_text("")
    assert len(make_report([tmp_path / "0", tmp_path / "1"], Wanted()).results) == 1
    report = make_report([tmp_path], Wanted(target=("test_top1", 0.5)))
    assert [(result.runs, result.group.values) for result in report.results] == [
        (1, {"algo": "flex", "dataset": "digits"})
    ]


def test_mixed_versions_and_synthetic_data_are_said_first(tmp_path: Path) -> None:
    write_run(tmp_path / "0", seed=0, summary={"data_source": "synthetic"})
    write_run(tmp_path / "1", seed=1, summary={"versions": {"python": "3.11.7", "torch": "2.9.0"}})
    write_run(tmp_path / "2", seed=2, summary={"trace": {"path": "x", "source": "synthetic"}})
    report = make_report([tmp_path], Wanted())
    assert report.warnings == (
        "SYNTHETIC data or traces in 2 of 3 runs: they say nothing about real data",
        "mixed versions of torch, and in how many runs: 2.14.1 (2), 2.9.0 (1)",
    )
    assert report.results[0].notes[0] == "synthetic: generated, not measured, data or trace"


def test_what_is_no_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        find_runs([tmp_path / "absent"])
    with pytest.raises(DataError, match=r"no run in it; expected a folder with summary\.json"):
        find_runs([tmp_path])
    folder = write_run(tmp_path / "0")
    (folder / "summary.json").write_text("{")
    with pytest.raises(DataError, match="none of 1 run folders can be read"):
        make_report([tmp_path], Wanted())


def test_runs_are_found_once_and_in_the_order_of_people(tmp_path: Path) -> None:
    for name in ("m/2", "m/10", "m/1"):
        write_run(tmp_path / name)
    found = find_runs([tmp_path / "m" / "10", tmp_path])
    assert [p.name for p in found] == ["10", "1", "2"]


def test_interpolations_stay_text(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: ${oc.env:HOME}\nb: {c: [1, {d: 2}], e: {}}\n")
    assert flatten(read_yaml(tmp_path / "c.yaml")) == {"a": "${oc.env:HOME}", "b.c": "[1, {d: 2}]", "b.e": "{}"}
    with pytest.raises(RunFolderError, match="no such file"):
        read_yaml(tmp_path / "d.yaml")


def test_what_a_run_said_is_what_the_report_reads(tmp_path: Path) -> None:
    from flexray.run.command import run_command

    status = run_command([
        "cluster=inline", "progress=false", f"hydra.run.dir={tmp_path / 'r'}", "rounds=9", "eval_every=3", "target=0.3",
    ])  # fmt: skip
    assert status == 0
    run = read_run(tmp_path / "r", "r")
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    reached = run.reached()
    assert (run.status, run.fault) == (COMPLETED, "")
    assert reached is not None
    assert [reached.time, reached.rounds, reached.sent_bytes] == [
        summary[f"{what}_to_target"] for what in ("time", "rounds", "bytes")
    ]
    assert run.final == summary["final"]["test_top1"]
    assert run.names == [*summary["parties"], "server"]
