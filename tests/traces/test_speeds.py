"""Speeds from a trace: which machine, which sample, what happens at the end; the theory's warning."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from flexray.core.errors import ConfigError, DataError
from flexray.core.messages import RoundRecord, Started
from flexray.optimizers import LocalSGD
from flexray.run.command import run_command
from flexray.run.watch.constraint import ConstraintObserver
from flexray.traces.cli import main as traces_main
from flexray.traces.speeds import Samples, TraceSpeeds
from helpers.jobs import Compose, Run

SMALL = ("dataset.batch_size=128", "model.hidden=[8]", "speeds=trace", "eval_train=false")
ROWS = np.array([[0.0, 0.5, 0.9], [0.25, 0.25, 0.25], [0.1, 0.2, 0.3], [0.6, 0.7, 0.8], [0.5, 0.0, 0.5]])


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace of five machines and three samples."""
    path = tmp_path_factory.mktemp("trace") / "five.npy"
    np.save(path, ROWS)
    return path


def in_order(trace: Path) -> tuple[str, str]:
    return f"speeds.path={trace}", "speeds.machines=[machine_000,machine_001,machine_002,machine_003,machine_004]"


def rounds(records: list[object]) -> list[RoundRecord]:
    return [record for record in records if isinstance(record, RoundRecord)]


@pytest.mark.parametrize(("at_end", "fifth"), [("wrap", 1), ("hold", 2)])
def test_a_sample_per_round(at_end: str, fifth: int) -> None:
    speeds = TraceSpeeds((1.0, 1.0), Samples(ROWS[:2], "t", at_end=at_end))
    assert [speeds.utilization(r, 1e9) for r in range(3)] == [(0.0, 0.25), (0.5, 0.25), (0.9, 0.25)]
    assert speeds.utilization(4, 0.0) == tuple(ROWS[:2, fifth])


def test_the_sample_that_holds_at_the_simulated_time() -> None:
    speeds = TraceSpeeds((1.0,), Samples(ROWS[:1], "t", advance="time", sample_units=0.1))
    found = [speeds.utilization(0, t)[0] for t in (0.0, 0.0999, 0.1, 0.3 - 0.1, 0.29, 3 * 0.1)]
    assert found == [0.0, 0.0, 0.5, 0.9, 0.9, 0.0]


def test_a_trace_that_ends_says_so() -> None:
    speeds = TraceSpeeds((1.0,), Samples(ROWS[:1], "five.npy", at_end="error"))
    with pytest.raises(ConfigError, match=r"speeds.at_end: the trace five.npy has 3 samples, and sample 4 is asked"):
        speeds.utilization(3, 0.0)


def test_tau_and_rates_follow_the_trace(compose_job: Compose, run_inline: Run, trace: Path) -> None:
    job = compose_job("algo=adaptive", *SMALL, *in_order(trace), "rounds=4", "adaptive.A=0.6", "optimizer=sgd")
    found = rounds(run_inline(job))
    assert [r.tau for r in found] == [
        (20, 15, 18, 8, 10), (10, 15, 16, 6, 20), (2, 15, 14, 4, 10), (20, 15, 18, 8, 10)
    ]  # fmt: skip
    assert [r.utilization for r in found[:3]] == [tuple(column) for column in ROWS.T]
    taus = [found[0].tau, *(r.tau for r in found)]
    for record, before in zip(found, taus, strict=False):
        assert record.lr == tuple(0.6 / tau for tau in before)


def test_vafl_reads_the_sample_at_the_start_of_a_turn(compose_job: Compose, run_inline: Run, trace: Path) -> None:
    job = compose_job("algo=vafl", "algo.server=free", *SMALL, *in_order(trace), "rounds=6", "network.t_comm=1")
    found = [(r.party, r.sim_time) for r in rounds(run_inline(job))]
    first = [1 + 1 / (1 - c) for c in ROWS[:4, 0]]
    second = [t + 1 + 1 / (1 - c) for t, c in zip(first, ROWS[:4, 1], strict=True)]
    expected = sorted((t, k) for k, times in enumerate(zip(first, second, strict=True)) for t in times)[:6]
    assert found == [(k, pytest.approx(t)) for t, k in expected]


def test_machines_are_drawn_with_the_seed_and_may_be_named(compose_job: Compose, trace: Path) -> None:
    def rows(*overrides: str) -> list[list[float]]:
        speeds = compose_job(*SMALL, f"speeds.path={trace}", *overrides).experiment.speeds
        assert isinstance(speeds, TraceSpeeds)
        return speeds.trace.values_kt.tolist()

    drawn = rows("seed=1")
    assert sorted(drawn) == sorted(ROWS.tolist())
    assert rows("seed=1") == drawn
    assert rows("seed=2") != drawn
    named = rows("seed=1", "speeds.machines={server:machine_000,upper_left:machine_004}")
    assert (named[4], named[0]) == (ROWS[0].tolist(), ROWS[4].tolist())
    fixed = rows("seed=1", "speeds.utilization={lower_left:0.5}")
    assert fixed[2] == [0.5, 0.5, 0.5]


def test_who_runs_as_which_machine_is_told_at_the_start_and_in_the_summary(trace: Path, tmp_path: Path) -> None:
    path, machines = in_order(trace)
    given = (*SMALL, path, machines, "speeds.utilization={lower_left:0.5}", "cluster=inline", "rounds=1")
    assert run_command([*given, f"hydra.run.dir={tmp_path}"]) == 0
    places = {"upper_left": 0, "upper_right": 1, "lower_right": 3, "server": 4}
    expected = {name: f"machine_00{place}" for name, place in places.items()}
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert summary["trace"] == {"path": str(trace), "source": "files", "machines": expected}
    told = ", ".join(f"{name} as {machine}" for name, machine in expected.items())
    log = (tmp_path / "run.log").read_text(encoding="utf-8")
    assert log.count(f"machines of {trace}: {told}\n") == 1


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("speeds.advance=rund", "speeds.advance: unknown value 'rund'; did you mean 'round'?"),
        ("speeds.at_end=stop", "speeds.at_end: unknown value 'stop'"),
        ("speeds.advance=time", "speeds.sample_units: expected the units that a sample lasts"),
        ("speeds.machines=[machine_000]", "speeds.machines: expected 5 machines"),
        ("speeds.machines={server:machine_009}", "no machine 'machine_009' among its 5"),
        ("speeds.utilization=0.5", "speeds.utilization: with speeds=trace expected a mapping by participant"),
        ("speeds.path=nowhere.npy", "nowhere.npy: no such trace file"),
    ],
)
def test_mistakes_are_named(override: str, words: str, compose_job: Compose, trace: Path) -> None:
    with pytest.raises((ConfigError, DataError)) as error:
        compose_job(*SMALL, f"speeds.path={trace}", override)
    assert words in str(error.value)


def test_too_few_machines_for_the_participants(compose_job: Compose, tmp_path: Path) -> None:
    np.save(tmp_path / "two.npy", ROWS[:2])
    names = "upper_left, upper_right, lower_left, lower_right, server"
    with pytest.raises(ConfigError, match=rf"two.npy has 2 machines, and 5 participants \({names}\) need one each"):
        compose_job(*SMALL, f"speeds.path={tmp_path / 'two.npy'}")


def test_the_theorys_limit_is_watched(caplog: pytest.LogCaptureFixture) -> None:
    watching = ConstraintObserver((1.0, 2.0), (LocalSGD(), LocalSGD(momentum=0.5)))

    def record(number: int, lr: tuple[float, float]) -> RoundRecord:
        return RoundRecord(number, 0.0, 1.0, 1.0, (10, 2), lr, (0.0, 0.0), 0.0, (1.0, 1.0), 0.5, 0, (), ())

    with caplog.at_level(logging.WARNING, logger="flexray"):
        watching.on(Started(("a", "server"), 3, 1))
        watching.on(record(1, (1 / 160, 1 / (16 * 2 * 2 * 1.5))))
        assert not caplog.messages
        watching.on(record(2, (1 / 160, 0.02)))
        watching.on(record(3, (0.1, 0.1)))
    (message,) = caplog.messages
    assert message.startswith("round 2: the learning rate 0.02 of server exceeds the theory's limit")
    assert "= 0.0104" in message
    assert json.dumps(message)


@pytest.mark.parametrize("listed", ["null", "[server,lower_right,upper_right,lower_left,upper_left]"])
def test_machines_that_have_the_participants_names_are_theirs(
    compose_job: Compose, tmp_path: Path, listed: str
) -> None:
    names = ("lower_right", "server", "upper_left", "upper_right", "lower_left")
    file = tmp_path / "cpu.csv"
    lines = [",".join(("time", *names)), *(",".join(map(str, (t * 300, 0.1, 0.2, 0.3, 0.4, 0.5))) for t in range(4))]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert traces_main(["import", "wide", str(file), "-o", str(tmp_path / "own.parquet")]) == 0
    job = compose_job(
        "speeds=trace", f"speeds.path={tmp_path / 'own.parquet'}", f"speeds.machines={listed}", "rounds=1"
    )
    speeds = job.experiment.speeds
    assert isinstance(speeds, TraceSpeeds)
    assert all(name == machine for name, machine in speeds.trace.machines.items())
    assert speeds.utilization(0, 0.0) == pytest.approx((0.3, 0.4, 0.5, 0.1, 0.2))
