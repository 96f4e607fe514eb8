"""``clock=wall`` in one process: real seconds, measured tau, and the same numbers when replayed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from flexray.run.command import run_command
from helpers.wall_runs import SMALL, RunFolder, repeated, rows, summary

SLOWER = ("timeout=0.2", "rounds=1")
FAST = ("clock=wall", "timeout=0.02", "network.t_comm=0.005", "rounds=5")


def taus(folder: Path) -> list[list[int]]:
    return [json.loads(row["tau"]) for row in rows(folder)]


@pytest.mark.parametrize("algo", ["flex", "adaptive", "sync_min", "sync_max", "pbcd", "efvfl"])
def test_a_wall_run_is_repeated_on_the_virtual_clock(algo: str, run_folder: RunFolder) -> None:
    first = run_folder("first", f"algo={algo}", "speeds=google_mean", *FAST)
    repeated(run_folder, first, algo)
    found = summary(first)
    assert (found["time_unit"], found["rounds"]) == ("seconds", 5)
    assert found["sim_time"] == pytest.approx(math.fsum(float(row["duration"]) for row in rows(first)))
    for row, tau in zip(rows(first), taus(first), strict=True):
        together = 4 * 0.02 if algo in ("flex", "adaptive", "sync_min") else 0.0  # a process runs them in turn
        assert float(row["duration"]) >= together + 0.005
        assert min(tau) >= 1
        assert len(set(tau)) == 1 or algo in ("flex", "adaptive")
        assert algo not in ("pbcd", "efvfl") or set(tau) == {1}


@pytest.mark.parametrize("place", ["server", "b"])
def test_with_labels_at_one_place_too(place: str, run_folder: RunFolder) -> None:
    first = run_folder("first", f"labels_at={place}", "lr=1e-5", "speeds=google_mean", *FAST)
    repeated(run_folder, first, "flex", f"labels_at={place}", "lr=1e-5")
    assert all(min(tau) >= 1 for tau in taus(first))
    assert summary(first)["status"] == "completed"


def test_wall_turns_are_repeated_in_their_order(run_folder: RunFolder) -> None:
    speed = ("speeds=uniform", "speeds.utilization={a:0.9,default:0}", "network.t_comm={a:0.02,default:0.005}")
    first = run_folder("first", "algo=vafl", *FAST, *speed, "rounds=30", "eval_every=7")
    repeated(run_folder, first, "vafl", "eval_every=7", speed[-1])
    found = rows(first)
    turns = [row["party"] for row in found]
    assert sorted(set(turns)) == ["a", "b", "c"]
    assert turns.count("a") < min(turns.count("b"), turns.count("c"))
    for row in found:
        assert float(row["duration"]) >= (0.02 if row["party"] == "a" else 0.005)
    for party in "abc":  # a turn begins when the one before ended
        own = [row for row in found if row["party"] == party]
        total = math.fsum(float(row["duration"]) for row in own)
        assert total == pytest.approx(float(own[-1]["sim_time"]))


def test_a_longer_unit_time_throttles(run_folder: RunFolder) -> None:
    tau = {}
    for unit in (1, 4):
        folder = run_folder(
            f"unit-{unit}", "speeds=uniform", f"speeds.unit_time=[{unit},1,1,1]", *FAST, "timeout=0.1", "rounds=2"
        )
        tau[unit] = sum(t[0] for t in taus(folder))
    assert tau[4] < 0.6 * tau[1]  # a quarter on an idle machine; tests run beside others


@pytest.mark.parametrize("algo", ["flex", "adaptive", "sync_min", "vafl"])
def test_who_is_frozen_takes_no_iterations(algo: str, run_folder: RunFolder) -> None:
    first = run_folder("first", f"algo={algo}", "frozen=[b]", *FAST)
    repeated(run_folder, first, algo, "frozen=[b]")
    assert {tau[1] for tau in taus(first)} == {0}


def test_at_full_utilization_one_iteration_is_taken(run_folder: RunFolder) -> None:
    first = run_folder("first", "speeds=uniform", "speeds.utilization={c:1,default:0}", *FAST)
    assert {tau[2] for tau in taus(first)} == {1}


def test_full_utilization_counts_as_the_largest_that_is_waited_for(run_folder: RunFolder) -> None:
    first = run_folder("first", "algo=pbcd", "speeds=uniform", "speeds.utilization={c:1,default:0}", *FAST)
    assert [json.loads(row["utilization"])[2] for row in rows(first)] == [0.99] * len(rows(first))


@pytest.mark.parametrize(("key", "algo"), [("speeds.overrun=ignore", "flex"), ("algo.server=free", "vafl")])
def test_what_is_really_waited_for_cannot_be_left_out(key: str, algo: str, bundle: Path, tmp_path: Path) -> None:
    command = [*SMALL, f"dataset.path={bundle}", f"hydra.run.dir={tmp_path / 'no'}", f"algo={algo}", *FAST]
    assert run_command([*command, key]) == 2


def test_kept_optimizer_state_statistics_and_decay_survive_the_dummy_round(run_folder: RunFolder) -> None:
    kept = (
        "optimizer=adam", "optimizer.keep_state=true", "++parties.c.model._target_=helpers.ray_models.Normalized",
        "lr_decay.milestones=[3]",
    )  # fmt: skip
    first = run_folder("first", "speeds=google_mean", *kept, *FAST)
    again = repeated(run_folder, first, "flex", *kept)
    assert (first / "checkpoints/final/c.safetensors").read_bytes() == (
        again / "checkpoints/final/c.safetensors"
    ).read_bytes()


def test_static_rates_come_from_the_dummy_round(run_folder: RunFolder) -> None:
    first = run_folder("first", "rates=static", "speeds=uniform", *FAST[:1], *SLOWER, "optimizer=sgd", "adaptive.A=1")
    lr = json.loads(rows(first)[0]["lr"])
    assert all(1 / rate == pytest.approx(round(1 / rate)) and 1 / rate > 20 for rate in lr)
    repeated(run_folder, first, "flex", "optimizer=sgd")


@pytest.mark.parametrize("weighted", [True, False])
def test_a_dummy_round_is_really_taken_and_gives_the_first_rates(weighted: bool, run_folder: RunFolder) -> None:
    """Tau of the dummy round is whatever fitted: 1 / rate is a whole number, and rounds begin after its seconds."""
    plain = ("optimizer=sgd", f"adaptive.weighted={weighted}", f"adaptive.A={1 if weighted else 0.01}")
    first = run_folder("first", "algo=adaptive", "adaptive.first=dummy", "speeds=google_mean", *plain, *FAST)
    repeated(run_folder, first, "adaptive", "optimizer=sgd")
    found, tau = rows(first), taus(first)
    begun = float(found[0]["sim_time"]) - float(found[0]["duration"])
    assert begun >= 4 * 0.02 + 0.005
    rates = [json.loads(row["lr"]) for row in found]
    if weighted:
        for rate in rates[0]:
            assert 1 / rate == pytest.approx(round(1 / rate))
        assert rates[1:] == [pytest.approx([1 / t for t in row]) for row in tau[:-1]]
    else:
        for rate in rates[0]:
            assert 0.01 / rate == pytest.approx(round(0.01 / rate))
        products = [
            [r * t for r, t in zip(rate, row, strict=True)] for rate, row in zip(rates[1:], tau[:-1], strict=True)
        ]
        assert products == [pytest.approx(products[0])] * 4  # the first rate times tau of the dummy round


def test_the_timeline_is_in_seconds(run_folder: RunFolder) -> None:
    first = run_folder("first", *FAST)
    for folder in (first, repeated(run_folder, first, "flex")):
        events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
        assert events[0]["args"]["name"] == "seconds"
        end = max(event["ts"] + event["dur"] for event in events if event["ph"] == "X")
        assert end == pytest.approx(1e6 * summary(first)["sim_time"])


def test_max_time_is_in_seconds(run_folder: RunFolder) -> None:
    first = run_folder("first", *FAST[:3], "max_time=0.5")
    assert 1 <= summary(first)["rounds"] <= 6
