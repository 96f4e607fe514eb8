"""``resume=RUN_FOLDER``: byte-equal files and equal digests, however the run ended before."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flexray.core.messages import Record, RoundRecord
from flexray.report.folders import read_run
from flexray.run.command import run_command
from flexray.run.execution import Execution
from helpers.processes import within
from helpers.small import FIELD, NAMES
from helpers.typed import Typed

ALGORITHMS = (*NAMES, "vafl", *FIELD)
ABSENT = ("absence.probability={a:0.5,b:0.3}", "absence.above={c:0.3}", "speeds=trace", "model.dropout=0.1")
FILES = ("rounds.csv", "evals.csv", "timeline.json")
Start = Callable[..., int]


SMALL = (
    "cluster=inline", "progress=false", "dataset=bundle", "dataset.batch_size=7", "rounds=30", "eval_every=4",
    "target=0.3", "speeds=google_mean", "timeout=8",
)  # fmt: skip


@pytest.fixture
def start(bundle: Path) -> Start:
    """Return a function that runs a small bundle in this process and returns the exit status."""
    return lambda folder, *words: run_command([*SMALL, f"dataset.path={bundle}", f"hydra.run.dir={folder}", *words])


@pytest.fixture
def undisturbed(bundle: Path, run_once: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function from words to the folder of a whole run, which other tests may have needed before."""
    return lambda *words: run_once(*SMALL, f"dataset.path={bundle}", *words)


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return content


def assert_same(folder: Path, undisturbed: Path) -> None:
    for name in FILES:
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name
    told, expected = summary(folder), summary(undisturbed)
    assert told["status"] == expected["status"] == "completed"
    changing = {"wall_s", "setup_s", "resumed_from", "failures", "peak_memory_mb"}
    assert {k: v for k, v in told.items() if k not in changing} == {
        k: v for k, v in expected.items() if k not in changing
    }


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Return a function that has this process sent a signal when a round is reported."""
    note = Execution._note

    def plan(number: int, signal_number: int) -> None:
        def noted(self: Execution, record: Record) -> None:
            note(self, record)
            if isinstance(record, RoundRecord) and record.round == number:
                os.kill(os.getpid(), signal_number)

        monkeypatch.setattr(Execution, "_note", noted)

    return plan


@pytest.fixture
def interrupted_and_resumed(
    start: Start, interrupt_at: Callable[[int, int], None], tmp_path: Path
) -> Callable[..., None]:
    """Return a function that runs words, interrupts them after a round, resumes, and compares with a whole run."""

    def checked(number: int, expected: Path, *words: str) -> None:
        interrupt_at(number, signal.SIGINT)
        assert start(tmp_path / "run", *words) == 1
        interrupt_at(0, 0)
        assert run_command([f"resume={tmp_path / 'run'}"]) == 0
        assert_same(tmp_path / "run", expected)

    return checked


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_run_that_was_interrupted_goes_on_exactly(
    algo: str, start: Start, undisturbed: Callable[..., Path], interrupt_at: Callable[[int, int], None], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    expected = undisturbed(f"algo={algo}")
    draw = random.Random(f"interrupt {algo}")
    interrupt_at(draw.randrange(1, 16), draw.choice((signal.SIGINT, signal.SIGTERM)))
    assert start(tmp_path / "run", f"algo={algo}") == 1
    assert summary(tmp_path / "run")["status"] == "interrupted"
    assert summary(tmp_path / "run")["rounds"] < 30
    assert f"resume={tmp_path / 'run'}" in capsys.readouterr().out
    reported = read_run(tmp_path / "run", "run")
    assert (reported.status, reported.length) == ("interrupted", summary(tmp_path / "run")["rounds"])
    interrupt_at(0, 0)
    assert run_command([f"resume={tmp_path / 'run'}"]) == 0
    assert_same(tmp_path / "run", expected)


@pytest.mark.parametrize("algo", ["flex", "adaptive"])
def test_a_timeout_that_chooses_itself_goes_on_exactly(
    algo: str, undisturbed: Callable[..., Path], interrupted_and_resumed: Callable[..., None]
) -> None:
    words = (f"algo={algo}", "timeout=auto", "speeds=trace", "network.jitter=0.3", "lr=0.1", "adaptive.first=dummy")
    expected = undisturbed(*words)
    interrupted_and_resumed(11, expected, *words)
    with (expected / "rounds.csv").open(encoding="utf-8") as file:
        chosen = [float(row["timeout"]) for row in csv.DictReader(file)]
    told = summary(expected)["timeout"]
    assert len(set(chosen)) > 10
    assert (told["least"], told["most"]) == (min(chosen), max(chosen))
    assert told["mean"] == pytest.approx(math.fsum(chosen) / 30)


def test_waits_and_costs_add_up_exactly(
    undisturbed: Callable[..., Path], interrupted_and_resumed: Callable[..., None]
) -> None:
    words = (
        "algo=vafl", "algo.max_ahead=1", "network.t_comm={a:0.1,b:0.7,c:3.3}", "costs.joules_per_unit=0.1",
        "costs.joules_per_byte=1e-9", "costs.price_per_hour=1", "costs.seconds_per_unit=0.3", "costs.price_per_gb=0.1",
    )  # fmt: skip
    expected = undisturbed(*words)
    assert summary(expected)["energy_joules_to_target"] is not None
    interrupted_and_resumed(13, expected, *words)
    with (expected / "rounds.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    waited = {name: math.fsum(float(row["waited"]) for row in rows if row["party"] == name) for name in "abc"}
    assert summary(expected)["waited"] == waited
    assert waited["a"] > waited["b"] > waited["c"] == 0


@pytest.mark.parametrize("number", [1, 3, 4, 11])
@pytest.mark.parametrize("labels", ["all", "server"])
@pytest.mark.parametrize("algo", ["flex", "adaptive"])
def test_with_absent_parties_too(
    algo: str,
    labels: str,
    number: int,
    start: Start,
    undisturbed: Callable[..., Path],
    interrupt_at: Callable[[int, int], None],
    tmp_path: Path,
) -> None:
    """What stands in for them is kept; some begin after it, some have only missed rounds by then."""
    words = (f"algo={algo}", f"labels_at={labels}", *ABSENT)
    expected = undisturbed(*words)
    assert all(summary(expected)["absent_rounds"].values())
    interrupt_at(number, signal.SIGINT)
    assert start(tmp_path / "run", *words, "checkpoint.every=2") == 1
    interrupt_at(0, 0)
    assert run_command([f"resume={tmp_path / 'run'}", "rounds=20"]) == 0
    assert run_command([f"resume={tmp_path / 'run'}", "rounds=30"]) == 0
    assert_same(tmp_path / "run", expected)


def test_what_was_sent_of_every_sample_is_kept_where_parties_are_sampled_too(
    undisturbed: Callable[..., Path], interrupted_and_resumed: Callable[..., None]
) -> None:
    words = ("algo=efvfl", "absence.sample=2", "network.noise=0.01", "model.dropout=0.1")
    expected = undisturbed(*words)
    assert sum(summary(expected)["absent_rounds"].values()) == 30
    interrupted_and_resumed(5, expected, *words, "checkpoint.every=2")


def test_more_rounds_may_be_wished(start: Start, undisturbed: Callable[..., Path], tmp_path: Path) -> None:
    assert start(tmp_path / "run", "rounds=7") == 0
    expected = undisturbed()
    assert run_command([f"resume={tmp_path / 'run'}", "rounds=13"]) == 0
    assert run_command([f"resume={tmp_path / 'run'}", "rounds=30", "checkpoint.every=2"]) == 0
    assert_same(tmp_path / "run", expected)
    assert run_command([f"resume={tmp_path / 'run'}"]) == 0
    assert_same(tmp_path / "run", expected)
    assert summary(tmp_path / "run")["resumed_from"] == 30


CASES = {
    "fedonce": "algo=fedonce algo.apart_rounds=6 algo.guest=b rounds=14 model.dropout=0.1",
    "less": "algo=less algo.pretrain_rounds=2 algo.component_rounds=3 algo.component_penalty=0.4 algo.feature_rounds=4"
    " algo.feature_penalty=0.3 rounds=18 server=linear optimizer=adam optimizer.keep_state=true network.bits=6",
    "tdcd": "algo=tdcd algo.local_iterations=2 algo.clients=3 rounds=14 model.dropout=0.1",
    "bsvfl": "algo=bsvfl algo.local_iterations=2 network.t_comm=40 rounds=14 model.dropout=0.1",
}


@pytest.mark.parametrize(
    ("algo", "number"),
    [("fedonce", 2), ("fedonce", 9), ("less", 4), ("less", 8), ("less", 12), ("tdcd", 5), ("bsvfl", 2), ("bsvfl", 7)],
)
def test_others_go_on_exactly(
    algo: str, number: int, undisturbed: Callable[..., Path], interrupted_and_resumed: Callable[..., None]
) -> None:
    words = CASES[algo].split()
    interrupted_and_resumed(number, undisturbed(*words), *words)


@pytest.mark.parametrize("algo", CASES)
def test_others_are_replayed(algo: str, start: Start, undisturbed: Callable[..., Path], tmp_path: Path) -> None:
    words = CASES[algo].split()
    expected = undisturbed(*words)
    assert start(tmp_path / "again", *words, "speeds=replay", f"speeds.path={expected}") == 0
    assert summary(tmp_path / "again")["model_digest"] == summary(expected)["model_digest"]


@pytest.mark.parametrize("algo", [*ALGORITHMS, "bsvfl"])
def test_more_time_may_be_wished(algo: str, start: Start, undisturbed: Callable[..., Path], tmp_path: Path) -> None:
    """Also time in which nobody gets done, and a party's turn that did not fit before."""
    words = (f"algo={algo}", "rounds=null", "speeds=google_mean", "network.t_comm={a:5,b:17,c:1}", "timeout=20")
    expected = undisturbed(*words, "max_time=400")
    assert start(tmp_path / "run", *words, "max_time=150") == 0
    for time_units in (151, 203, 290, 400):
        assert run_command([f"resume={tmp_path / 'run'}", f"max_time={time_units}"]) == 0
    assert_same(tmp_path / "run", expected)


def test_checkpoints_may_be_at_any_address(start: Start, undisturbed: Callable[..., Path], tmp_path: Path) -> None:
    expected = undisturbed()
    for name, place in (("far", "memory://flexray-test"), ("near", str(tmp_path / "elsewhere"))):
        assert start(tmp_path / name, "rounds=7", f"checkpoint.dir={place}") == 0
        assert not list((tmp_path / name / "checkpoints").glob("round-*"))
        again = [f"checkpoint.dir={place}"] if "://" in place else []  # an address has to be typed again
        assert run_command([f"resume={tmp_path / name}", "rounds=30", *again]) == 0
        assert_same(tmp_path / name, expected)
    assert len(list((tmp_path / "elsewhere").glob("near-*/round-*.json"))) == 2


@pytest.mark.parametrize("place", ["{}/file/below", "{}/file", "file://{}/file/below", "nowhere://runs"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_computed(
    place: str, start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert start(tmp_path / "run", f"checkpoint.dir={place.format(tmp_path)}") == 2
    said = "".join(capsys.readouterr())
    assert said.startswith("flexray: checkpoint.dir: ")
    assert said.count("\n") == 1
    assert not (tmp_path / "run" / "rounds.csv").exists()


def test_a_checkpoint_that_cannot_be_written_on_the_way_costs_nothing_but_itself(
    start: Start,
    undisturbed: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def on_a_full_disk(path: Path, content: bytes) -> None:
        path.write_bytes(content[:3])
        if path.name.startswith(("round-8", "round-12")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_bytes(content)

    expected = undisturbed()
    monkeypatch.setattr("flexray.run.save.storage._write_through", on_a_full_disk)
    assert start(tmp_path / "run", "rounds=12", "checkpoint.every=4") == 0
    said = capsys.readouterr().out
    assert re.findall(r"No space left on device; there is no checkpoint of round (\d+)", said) == ["8", "12"]
    assert summary(tmp_path / "run")["rounds"] == 12
    left = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("*.*"))
    assert left == ["round-4.json", "round-4.safetensors"]
    assert run_command([f"resume={tmp_path / 'run'}", "rounds=30"]) == 0
    assert_same(tmp_path / "run", expected)


@pytest.mark.parametrize("damage", ["torn", "edited", "gone", "json"])
def test_the_checkpoint_before_a_damaged_one_is_used(
    damage: str, start: Start, undisturbed: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = undisturbed()
    folder = tmp_path / "run"
    assert start(folder, "rounds=9", "checkpoint.every=4", "checkpoint.keep=3") == 0
    saved = folder / "checkpoints"
    assert sorted(p.name for p in saved.glob("*.json")) == ["round-4.json", "round-8.json", "round-9.json"]
    victim = saved / ("round-9.json" if damage == "json" else "round-9.safetensors")
    content = victim.read_bytes()
    if damage == "gone":
        victim.unlink()
    else:
        middle = len(content) // 2
        edited = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        victim.write_bytes(content[:middle] if damage == "torn" else edited)
    (saved / "round-12.safetensors.tmp").write_bytes(b"half of one")
    capsys.readouterr()
    assert run_command([f"resume={folder}", "rounds=30"]) == 0
    said = capsys.readouterr().out
    assert "the checkpoint of round 9 is damaged and not used" in said
    assert "going on after round 8" in said
    assert_same(folder, expected)
    assert not (saved / "round-12.safetensors.tmp").exists()


def test_a_new_run_in_an_old_folder_forgets_the_old_checkpoints(start: Start, tmp_path: Path) -> None:
    assert start(tmp_path / "run", "seed=5") == 0
    assert start(tmp_path / "run", "rounds=7") == 0
    assert sorted(p.name for p in (tmp_path / "run" / "checkpoints").glob("*.json")) == ["round-7.json"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["seed=1"], "resume: these keys would change the result: seed (was 0, now 1)"),
        (["lr=0.5", "algo=pbcd"], "algo._target_ (was 'flexray.algorithms.flex.FlexVFL'"),
        (["absence.probability=0.1"], "these keys would change the result: absence.probability (was 0.0, now 0.1)"),
        (["rounds=3"], "rounds: the run is to end after 3 rounds, but it has 7 already"),
        (["-m"], "resume: expected one run, got -m"),
        (["hydra.run.dir=x"], "hydra.run.dir: a resumed run goes on in its own folder"),
        (["clock=wall"], "resume: a run on clock=wall cannot be resumed"),
    ],
)
def test_what_cannot_be_resumed_is_refused_in_one_line(
    arguments: list[str], words: str, start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert start(folder, "rounds=7") == 0
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "run.log"}
    capsys.readouterr()
    assert run_command([f"resume={folder}", *arguments]) == 2
    out, err = capsys.readouterr()
    assert words in out + err
    assert (out + err).count("\n") == 1
    assert before == {p: p.read_bytes() for p in before}


def test_no_folder_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([f"resume={tmp_path}"]) == 2
    assert "is not the folder of a run" in capsys.readouterr().err


def test_ones_own_classes_are_used_when_trusted(
    start: Start, undisturbed: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = "+parties.b.model._target_=helpers.ray_models.Normalized"
    expected = undisturbed(mine)
    assert start(tmp_path / "run", mine, "rounds=7") == 0
    assert run_command([f"resume={tmp_path / 'run'}", "rounds=30"]) == 2
    assert (
        "parties.b.model._target_=helpers.ray_models.Normalized: stands in the run folder, which may not"
        in capsys.readouterr().err
    )
    assert run_command([f"resume={tmp_path / 'run'}", "rounds=15", mine]) == 0
    assert run_command([f"resume={tmp_path / 'run'}", "rounds=30", "trust=true"]) == 0
    assert_same(tmp_path / "run", expected)


def test_sigkill_loses_nothing_but_time(
    bundle: Path, start: Start, undisturbed: Callable[..., Path], tmp_path: Path
) -> None:
    expected = undisturbed("rounds=200")
    folder = tmp_path / "run"
    command = [
        "-m", "flexray.run", "cluster=inline", "progress=false", "dataset=bundle",
        f"dataset.path={bundle}", "dataset.batch_size=7", "rounds=200", "eval_every=4", "target=0.3",
        "speeds=google_mean", "timeout=8", f"hydra.run.dir={folder}", "checkpoint.every=3",
    ]  # fmt: skip
    process = Typed(command, tmp_path)
    assert within(60, lambda: process.poll() is not None or len(list(folder.glob("checkpoints/*.json"))) > 1)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.end()[0] == -signal.SIGKILL
    assert not (folder / "summary.json").exists()
    assert run_command([f"resume={folder}"]) == 0
    assert_same(folder, expected)
