"""Limits that leave room for nothing, rounds that would never end, and where errors are told."""

import pytest

from flexray.core.errors import ConfigError
from flexray.core.messages import Ended
from flexray.core.speeds import MOST_ITERATIONS, local_iterations

FEW = ("dataset.batch_size=8", "rounds=null")

TOO_SMALL = {
    "max_time=29.9": "max_time: expected at least 30 units (one round), got 29.9",
    "max_time=5 network.t_comm=[1,2,50]": "max_time: expected at least 70 units (one round), got 5",
    "max_time=13 algo=pbcd": "max_time: expected at least 14 units (one round), got 13",
    "max_time=89 algo=sync_max": "max_time: expected at least 90 units (one round), got 89",
    "max_time=59 algo=adaptive adaptive.first=dummy": "max_time: expected at least 60 units (one round), got 59",
    "max_time=11 algo=vafl": "max_time: expected at least 12.3334 units (one turn), got 11",
    "max_time=0.4 clock=wall timeout=0.5": "max_time: expected at least 0.5 seconds (one round), got 0.4",
    "epochs=0.1": "epochs: expected at least 0.333333 (one round of 3), got 0.1",
    "epochs=0.01 algo=vafl": "epochs: expected at least 0.111111 (one turn of 9), got 0.01",
    "epochs=0.1 rounds=5": "epochs: expected at least 0.333333 (one round of 3), got 0.1",
}


@pytest.mark.parametrize(("words", "expected"), TOO_SMALL.items())
def test_a_limit_before_the_first_round_is_refused(compose_job, bundle, words, expected):
    with pytest.raises(ConfigError) as caught:
        compose_job("dataset=bundle", f"dataset.path={bundle}", *FEW, *words.split())
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    "words",
    [
        "max_time=30", "max_time=14 algo=pbcd", "max_time=60 algo=adaptive adaptive.first=dummy",
        "max_time=12.3334 algo=vafl", "epochs=0.333 server=linear", "epochs=0.111 algo=vafl",
    ],
)  # fmt: skip
def test_a_limit_of_just_one_round_has_it(compose_job, run_inline, bundle, words):
    records = run_inline(compose_job("dataset=bundle", f"dataset.path={bundle}", *FEW, *words.split()))
    assert isinstance(records[-1], Ended)
    assert records[-1].rounds == 1


SLOW_LINKS = {
    # K = 3, B = 8, widths of 32, a head of 97 x 4 float64 numbers: 2,048 bytes up, 3,104 + 3 * 2,048 down
    "network.bandwidth=1000": ("41.296", "round"),
    "network.bandwidth={b:100,default:1000}": ("142.96", "round"),
    "network.bandwidth=1000 algo=adaptive adaptive.first=dummy": ("82.592", "round"),
    "network.bandwidth=1000 algo=pbcd": ("25.296", "round"),
    "network.bandwidth=1000 algo=vafl": ("16.4294", "turn"),  # 4/3 and 1 of computing, 10 + 4.096 of communication
    "network.bandwidth={c:1000,default:1e18} algo=vafl": ("13", "turn"),
}


@pytest.mark.parametrize(("words", "expected"), SLOW_LINKS.items())
def test_what_bytes_take_belongs_to_the_first_round(compose_job, run_inline, bundle, words, expected):
    enough, step = expected
    common = ("dataset=bundle", f"dataset.path={bundle}", *FEW, *words.split())
    short = compose_job(*common, f"max_time={float(enough) - 0.001}")
    with pytest.raises(ConfigError, match=rf"^max_time: expected at least {enough} units \(one {step}\), got "):
        run_inline(short)
    records = run_inline(compose_job(*common, f"max_time={enough}"))
    assert records[-1].rounds >= 1


def test_the_command_tells_it_in_one_line(run):
    outcome = run("rounds=null", "max_time=30", "network.bandwidth=1000", "dtype=float64")
    outcome.assert_refused("max_time: expected at least 41.296 units (one round), got 30")


def test_the_command_refuses_it_before_anything_starts(run):
    run("rounds=null", "max_time=5").assert_refused("max_time: expected at least 30 units (one round), got 5")


ABSURD = "local iterations in a round, expected at most 1,000,000; lower timeout or speeds.iterations, or raise"


@pytest.mark.parametrize(
    "words",
    [
        "timeout=1e17", "timeout=1e7 algo=sync_max", "speeds.iterations=1e17", "speeds.unit_time=1e-17",
        "timeout=1e17 algo=adaptive", "timeout=1e17 rates=static algo=pbcd", "timeout=1e17 clock=wall",
    ],
)  # fmt: skip
def test_a_round_that_would_never_end_is_refused(compose_job, bundle, words):
    with pytest.raises(ConfigError, match=rf"^timeout: \S+ would be \S+ {ABSURD}"):
        compose_job("dataset=bundle", f"dataset.path={bundle}", *FEW, "rounds=1", *words.split())


def test_the_most_iterations_are_taken():
    assert local_iterations(float(MOST_ITERATIONS), 1.0, 0.0) == MOST_ITERATIONS
    with pytest.raises(ConfigError, match=f"timeout: 2e.06 would be 2e.06 {ABSURD}"):
        local_iterations(2.0 * MOST_ITERATIONS, 1.0, 0.0)


def test_errors_of_a_job_go_to_standard_error_and_to_its_log(run):
    outcome = run("lr=-1")
    outcome.assert_refused("lr: expected a positive number, got -1")  # on standard error, and nothing else
    assert outcome.errors[0] in (outcome.folder / "run.log").read_text()


def test_a_divergence_is_told_there_and_the_rest_on_standard_output(run):
    outcome = run("lr=1e18", "optimizer.momentum=0.9", "rounds=20")
    assert outcome.status == 1
    assert outcome.stderr.startswith("diverged: the loss became NaN or infinite in round ")
    assert outcome.stderr.count("\n") == 1
    assert "flex on bundle: diverged" in outcome.text.removesuffix(outcome.stderr)
