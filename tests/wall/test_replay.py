"""``speeds=replay``: a run once more, from what its folder recorded."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flexray.run.command import run_command
from helpers.wall_runs import SMALL, RunFolder, repeated, rows, summary

ALGORITHMS = ("flex", "adaptive", "sync_min", "sync_max", "pbcd", "vafl")
TIES = ("rounds=14", "timeout=6", "speeds.unit_time=[1,1.2,1.4,1]", "network.t_comm={a:0.2,b:0,default:1}")


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_virtual_run_is_repeated(algo: str, run_folder: RunFolder) -> None:
    first = run_folder("first", f"algo={algo}", "speeds=uniform", *TIES, "lr_decay.milestones=[5,9]")
    links = "network.t_comm={a:0.2,b:0,default:1}"  # as they were; the rest of TIES was recorded
    repeated(run_folder, first, algo, links, "lr_decay.milestones=[5]")
    assert summary(first)["rounds"] == 14


def test_waits_are_repeated(run_folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    links = "network.t_comm={a:0.2,b:9,default:1}"
    first = run_folder("first", "algo=vafl", "algo.max_ahead=1", "rounds=14", links)
    again = repeated(run_folder, first, "vafl", "algo.max_ahead=1", links)
    assert summary(again)["waited"] == summary(first)["waited"]
    unbound = run_folder("unbound", "algo=vafl", "speeds=replay", f"speeds.path={first}", links)
    assert summary(unbound)["model_digest"] == summary(first)["model_digest"]
    with pytest.raises(AssertionError):
        run_folder("closer", "algo=vafl", "algo.max_ahead=0", "speeds=replay", f"speeds.path={first}")
    said = "algo.max_ahead: the recorded run had a party ahead by 1 when it began a turn; expected at least 1, or null"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("algo", ALGORITHMS[:-1])
def test_who_was_absent_is_absent_again(algo: str, run_folder: RunFolder) -> None:
    first = run_folder("first", f"algo={algo}", "rounds=14", "absence.probability={a:0.5,c:0.3}")
    again = repeated(run_folder, first, algo)
    assert summary(again)["absent_rounds"] == summary(first)["absent_rounds"]
    assert any(json.loads(row["absent"]) for row in rows(first))


def test_ties_that_differ_by_rounding_keep_their_order(run_folder: RunFolder) -> None:
    turns = ("algo=vafl", "algo.server=free", "speeds=uniform", "rounds=60", "network.t_comm=0")
    first = run_folder("first", *turns, *TIES[2:3])
    ends = [float(row["sim_time"]) for row in rows(first)]
    assert any(a > b for a, b in itertools.pairwise(ends))  # 8.399999999999999 after 8.4, which count as one
    repeated(run_folder, first, "vafl", "network.t_comm=0")


def test_the_beginning_of_a_run_is_repeated(run_folder: RunFolder) -> None:
    first = run_folder("first", "rounds=6")
    begun = run_folder("begun", "rounds=4", "speeds=replay", f"speeds.path={first}")
    assert rows(begun) == rows(first)[:4]
    assert summary(begun)["model_digest"] == summary(run_folder("short", "rounds=4"))["model_digest"]


def test_a_run_that_was_stopped_is_repeated_as_far_as_it_came(run_folder: RunFolder) -> None:
    first = run_folder("first", "rounds=4")
    (first / "summary.json").unlink()
    again = run_folder("again", "speeds=replay", f"speeds.path={first}")
    assert rows(again) == rows(first)


@pytest.fixture
def refused(run_once: Callable[..., Path], bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    first = run_once(*SMALL, f"dataset.path={bundle}", "rounds=3")

    def run(old: str = "", new: str = "", *overrides: str) -> str:
        folder = tmp_path / "changed"
        shutil.copytree(first, folder)
        text = (folder / "rounds.csv").read_text()
        assert old in text
        (folder / "rounds.csv").write_text(text.replace(old, new, 1) if old else text)
        capsys.readouterr()
        command = [*SMALL, f"dataset.path={bundle}", f"hydra.run.dir={tmp_path / 'refused'}", "speeds=replay"]
        assert run_command([*command, f"speeds.path={folder}", *overrides]) == 2
        out = capsys.readouterr()
        lines = (out.out + out.err).strip().splitlines()
        assert len(lines) == 1
        return lines[0].replace(str(folder), "FOLDER")

    return run


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("\n2,", "\n3,", "FOLDER/rounds.csv, row 3: expected round 2, got 3"),
        ("[5, ", "[5.5, ", "FOLDER/rounds.csv, row 2: tau: expected a JSON list of whole numbers of at least 0, got"),
        ("[5, ", "[-5, ", "FOLDER/rounds.csv, row 2: tau: expected a JSON list of whole numbers of at least 0, got"),
        ("[5, ", "[5, 7, ", "FOLDER/rounds.csv, row 2: tau: 5 participants were recorded, this run has 4: a, b, c,"),
        ("[0.01, ", "[NaN, ", "FOLDER/rounds.csv, row 2: lr: expected a JSON list of numbers of at least 0, got"),
        (",30.0,30.0,", ",never,30.0,", "FOLDER/rounds.csv, row 2: sim_time: expected a number of at least 0, got"),
        (",60.0,30.0,", ",60.0,nan,", "FOLDER/rounds.csv, row 3: duration: expected a number of at least 0, got 'nan'"),
        (",90.0,30.0,", ",20.0,30.0,", "FOLDER/rounds.csv, row 4: sim_time: is before that of the row before"),
        (",,,\n", ",d,,\n", "FOLDER/rounds.csv, row 2: party 'd' is none of this run's: a, b, c"),
        (",,,\n2", ",b,,\n2", "FOLDER/rounds.csv, row 3: party: expected one in all rows or in none"),
        (",,,\n", ',,,"[""d""]"\n', "FOLDER/rounds.csv, row 2: absent: expected a JSON list of some of a, b, c, got"),
        (",,,\n", ",,,b\n", "FOLDER/rounds.csv, row 2: absent: expected a JSON list of some of a, b, c, got 'b'"),
        (",,,\n", ',,,"[""a""]"\n', "FOLDER/rounds.csv, row 2: absent: 'a' is, but its tau is 5; expected 0"),
        (",tau,", ",taus,", "FOLDER/rounds.csv: column 'tau' is missing; expected the rounds.csv of a run folder"),
    ],
)
def test_a_malformed_row_is_named(old: str, new: str, said: str, refused) -> None:
    assert f"flexray: {said}" in refused(old, new)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("rounds=4", "rounds: 4 is more than the 3 that FOLDER recorded"),
        ("speeds.path=nowhere", "speeds.path: cannot read"),
        ("speeds.utilization=0.5", "speeds.utilization: not used with speeds=replay, which repeats what was recorded"),
        ("absence.above=0.5", "absence.above: speeds=replay repeats who was absent in the recorded run; expected none"),
        ("algo=vafl", "algo: vafl is chosen, but FOLDER recorded another; expected algo=flex"),
        ("algo=adaptive", "algo: adaptive is chosen, but FOLDER recorded another; expected algo=flex"),
    ],
)
def test_what_does_not_fit_the_recording_is_refused(override: str, said: str, refused) -> None:
    assert f"flexray: {said}" in refused("", "", override)


def test_without_a_summary_rounds_are_not_taken_for_turns(run_folder: RunFolder, bundle: Path, tmp_path: Path, caplog):
    first = run_folder("first", "algo=vafl", "rounds=3")
    (first / "summary.json").unlink()
    command = [*SMALL, f"dataset.path={bundle}", f"hydra.run.dir={tmp_path / 'no'}", "speeds=replay"]
    assert run_command([*command, f"speeds.path={first}"]) == 2


def test_an_unreadable_summary_is_refused(refused, tmp_path: Path, run_folder: RunFolder, bundle: Path) -> None:
    first = run_folder("other", "rounds=3")
    (first / "summary.json").write_text(json.dumps({})[:1])
    assert "summary.json: is not valid JSON" in refused("", "", f"speeds.path={first}")


@pytest.mark.parametrize("algo", ["flex", "vafl"])
@pytest.mark.parametrize("clock", [("clock=virtual",), ("clock=wall", "timeout=0.02")], ids=["virtual", "wall"])
def test_a_run_that_diverged_is_repeated_up_to_there(
    algo: str, clock: tuple[str, ...], bundle: Path, tmp_path: Path
) -> None:
    wild = ("lr=1e18", "adaptive.A=1e18", "rounds=30", "eval_every=30")
    first, again = tmp_path / "first", tmp_path / "again"
    command = [*SMALL, f"dataset.path={bundle}", f"algo={algo}", *wild[:2], wild[3]]
    assert run_command([*command, wild[2], f"hydra.run.dir={first}", *clock]) == 1
    found = summary(first)
    assert (found["status"], found["rounds"]) == ("diverged", found["divergence"]["round"])
    assert found["rounds"] < 30
    assert run_command([*command, f"hydra.run.dir={again}", "speeds=replay", f"speeds.path={first}"]) == 1
    assert rows(again) == rows(first)
    same = ["status", "divergence", "rounds", "sim_time"]
    if (algo, clock[0]) == ("flex", "clock=wall"):
        same.append("model_digest")  # of the others, rounds and turns that were submitted ahead are in the model
    assert {key: summary(again)[key] for key in same} == {key: found[key] for key in same}
