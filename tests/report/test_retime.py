"""One run of a synchronous algorithm serves every communication time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flexray.core.errors import DataError
from flexray.report.folders import read_run
from flexray.report.runs import Run
from flexray.run.command import run_command

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))

from retime import at_equal_times, with_comm_time, with_round_charge

COMMON = (
    "cluster=inline", "progress=false", "rounds=6", "eval_every=2", "eval_train=false", "target=0.3", "model=linear",
)  # fmt: skip
Made = Callable[..., Run]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return a function that makes a run on digits, each once, and reads it."""
    root, done = tmp_path_factory.mktemp("runs"), {}

    def make(*words: str) -> Run:
        if words not in done:
            folder = root / str(len(done))
            assert run_command([*COMMON, *words, f"hydra.run.dir={folder}"]) == 0
            done[words] = read_run(folder, folder.name)
        return done[words]

    return make


@pytest.mark.parametrize("words", [("algo=flex", "lr=0.1"), ("algo=pbcd",), ("algo=vafl", "rounds=40")], ids="-".join)
@pytest.mark.parametrize("units", [14, 30, 45, 1e9])
def test_evaluations_at_equal_times_are_those_that_a_run_makes_there(
    words: tuple[str, ...], units: float, made: Made
) -> None:
    own = made(*words, "eval_every=null", f"eval_every_units={units}").evals
    read = at_equal_times(made(*words, "eval_every=1"), units).evals
    assert own is not None
    assert read is not None
    assert read.round_e.tolist() == own.round_e.tolist()
    assert read.time_e.tolist() == own.time_e.tolist()
    assert read.sent_bytes_e.tolist() == own.sent_bytes_e.tolist()
    assert {k: v.tolist() for k, v in read.metrics.items()} == {k: v.tolist() for k, v in own.metrics.items()}


SYNCHRONOUS = [
    ("algo=flex", "lr=0.1"),
    ("algo=sync_min",),
    ("algo=sync_max", "timeout=4"),
    ("algo=pbcd",),
    ("algo=adaptive", "adaptive.first=dummy"),
    ("algo=flex", "speeds=trace", "timeout=7"),
]


@pytest.mark.parametrize("words", SYNCHRONOUS, ids="-".join)
@pytest.mark.parametrize("t_comm", [0, 50])
def test_it_is_what_a_run_with_that_time_would_have_written(words: tuple[str, ...], t_comm: int, made: Made) -> None:
    own = made(*words, f"network.t_comm={t_comm}")
    moved = with_comm_time(made(*words, "network.t_comm=10"), t_comm)
    assert own.series is not None
    assert moved.series is not None
    assert own.evals is not None
    assert moved.evals is not None
    assert moved.series.time_r.tolist() == own.series.time_r.tolist()
    assert moved.evals.time_e.tolist() == own.evals.time_e.tolist()
    assert {k: v.tolist() for k, v in moved.evals.metrics.items()} == {
        k: v.tolist() for k, v in own.evals.metrics.items()
    }
    assert moved.reached() == own.reached()
    assert moved.config == own.config


def test_rounds_of_broken_length_agree_but_for_rounding(made: Made) -> None:
    words = ("algo=pbcd", "speeds=google_mean")
    own, moved = made(*words, "network.t_comm=1"), with_comm_time(made(*words, "network.t_comm=10"), 1)
    assert own.series is not None
    assert moved.series is not None
    np.testing.assert_allclose(moved.series.time_r, own.series.time_r, rtol=1e-13)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("algo=vafl", "rounds=8"), "vafl has turns"),
        (("max_time=100",), "max_time is 100"),
        (("network.t_comm=[1,2,3,4]",), "network.t_comm: expected one number"),
        (("absence.above={lower_left:0.5}",), "no round waits for the links of absent parties"),
        (("speeds=trace", "speeds.advance=time", "speeds.sample_units=10"), "speeds.advance=time"),
    ],
)
def test_runs_whose_numbers_depend_on_their_times_are_refused(words: tuple[str, ...], reason: str, made: Made) -> None:
    with pytest.raises(DataError, match=reason):
        with_comm_time(made(*words), 5)


def test_a_time_that_is_none_is_refused(made: Made) -> None:
    for t_comm in (-1.0, float("nan"), float("inf")):
        with pytest.raises(DataError, match="t_comm: expected a number of at least 0"):
            with_comm_time(made("algo=pbcd", "network.t_comm=10"), t_comm)


def test_a_charge_counts_every_round_alike(made: Made, tmp_path: Path) -> None:
    run = with_round_charge(made("algo=flex", "speeds=trace", "timeout=7", "network.t_comm=10"), 30)
    assert run.series is not None
    assert run.evals is not None
    assert run.series.time_r.tolist() == [30.0 * r for r in range(1, 7)]
    assert run.evals.time_e.tolist() == [0.0, 60.0, 120.0, 180.0]
