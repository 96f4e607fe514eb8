"""What ``speeds=measured`` predicts is what ``clock=wall`` counts, in made-up seconds without noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flexray.calibrate.calibration import Calibration
from flexray.calibrate.summing import summed
from flexray.config.job import Job
from flexray.core.messages import Order, Record, Report, RoundRecord
from flexray.core.timings import Timings
from flexray.engine.driver.experiment import WallClock
from flexray.engine.driver.make import make_driver
from flexray.engine.driver.wall_rounds import WallRoundDriver
from flexray.engine.hosts.inline import borrowed_torch
from helpers.jobs import Compose
from helpers.made_time import Now, SideBySide, model_that_takes, set_clocks

SECONDS = {"a": 0.003, "b": 0.006, "c": 0.012, "server": 0.0045}
CALL_S, T_COMM_S = 0.0005, 0.02
BASE = ("dataset=bundle", "dataset.batch_size=8", "epochs=null", "eval_every=1000", "lr=0.001", "timeout=0.1")
BUSY = (0.002, 0.005)
"""Seconds that the driver, then a host, is busy with a call."""
Both = Callable[..., tuple[list[RoundRecord], list[RoundRecord]]]


@pytest.fixture(scope="module")
def both(compose_job: Compose, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Return a function from a place and words to the rounds of a run, as predicted and as they were."""
    now, home, known = Now(), tmp_path_factory.mktemp("measured"), dict[tuple[str, tuple[float, ...]], Calibration]()
    takes = model_that_takes(now)

    def job(*words: str, waits: bool = True) -> Job:
        models = {name: {"_target_": takes, "seconds": s if waits else 0.0} for name, s in SECONDS.items()}
        parties = {name: {"model": models[name]} for name in "abc"}
        return compose_job(*BASE, f"dataset.path={bundle}", *words, parties=parties, server=models["server"])

    def run(job: Job, busy: tuple[float, ...] = ()) -> list[Record]:
        with borrowed_torch():
            return list(make_driver(job.experiment, SideBySide(now, CALL_S, *busy), job.cluster.placement).run())

    def calibrated(place: str, busy: tuple[float, ...]) -> Calibration:
        here = job(place, "algo=flex", "speeds=uniform", "rounds=1", "network.t_comm=0")
        timings = run(replace(here, experiment=replace(here.experiment, wall=WallClock(calibrates_s=1.0))), busy)[-1]
        assert isinstance(timings, Timings)
        found = summed({8: timings}, [], home / f"{len(known)}.yaml")
        found.write()
        return found

    def compared(
        place: str, *words: str, busy: tuple[float, ...] = (), t_comm_s: float = T_COMM_S
    ) -> tuple[list[RoundRecord], list[RoundRecord]]:
        found = known[place, busy] = known.get((place, busy)) or calibrated(place, busy)
        links = ",".join(f"{name}:{seconds + t_comm_s}" for name, seconds in found.network["t_comm"].items())
        measured = ("speeds=measured", f"speeds.path={found.path}", f"network.t_comm={{{links}}}")
        predicted = run(job(*measured, *words, waits=False))
        real = run(job(place, "clock=wall", "speeds=uniform", f"network.t_comm={t_comm_s}", *words), busy)
        return rounds_of(predicted), rounds_of(real)

    with pytest.MonkeyPatch.context() as patch:
        set_clocks(now, patch)
        yield compared


def rounds_of(records: Sequence[Record]) -> list[RoundRecord]:
    return [record for record in records if isinstance(record, RoundRecord)]


@pytest.mark.parametrize(
    ("place", "algo"),
    [
        *(("local", algo) for algo in ("flex", "adaptive", "sync_min", "sync_max", "pbcd")),
        *((place, algo) for place in ("packed", "inline") for algo in ("flex", "pbcd")),
    ],
)
def test_rounds_last_as_long_as_predicted(place: str, algo: str, both: Both) -> None:
    words = (f"algo={algo}", "speeds.utilization=[0,0.5,0.3,0.2]", "rounds=4")
    predicted, real = both(f"cluster={place}", *words)
    between = slice(1, -1)  # the first one's rests do not know the overhead yet; the last one embeds no other batch
    assert [r.duration for r in predicted[between]] == pytest.approx([r.duration for r in real[between]], rel=0.01)
    for one, other in zip(predicted[between], real[between], strict=True):
        assert max(abs(a - b) for a, b in zip(one.tau, other.tau, strict=True)) <= 1


def test_tau_does_not_hang_on_a_dummy_round_that_is_disturbed(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    words, rehearse, calls = ("cluster=local", "algo=sync_max", "rounds=2"), WallRoundDriver._rehearse, list[int]()

    def disturbed(driver: WallRoundDriver, orders: list[Order]) -> tuple[tuple[Report, ...], float]:
        reports, seconds = rehearse(driver, orders)
        calls.append(len(orders))
        return tuple(r._replace(unit_s=r.unit_s * (3 if len(calls) == 1 else 1)) for r in reports), seconds

    quiet = both(*words)[1]
    monkeypatch.setattr(WallRoundDriver, "_rehearse", disturbed)
    assert [r.tau for r in both(*words)[1]] == [r.tau for r in quiet]
    assert len(calls) > 3


@pytest.mark.parametrize(("place", "utilization"), [("local", "[0,0.5,0.3,0.2]"), ("packed", "0"), ("inline", "0")])
def test_turns_come_as_predicted(place: str, utilization: str, both: Both) -> None:
    predicted, real = both(f"cluster={place}", "algo=vafl", f"speeds.utilization={utilization}", "rounds=100")
    assert predicted[-1].sim_time == pytest.approx(real[-1].sim_time, rel=0.05)


@pytest.mark.parametrize("utilization", ["0", "[0,0.5,0.3,0.2]"])
def test_turns_wait_for_a_driver_and_a_server_that_are_busy_with_others(utilization: str, both: Both) -> None:
    words = ("algo=vafl", f"speeds.utilization={utilization}", "rounds=100")
    predicted, real = both("cluster=local", *words, busy=BUSY, t_comm_s=0.0)
    assert predicted[-1].sim_time == pytest.approx(real[-1].sim_time, rel=0.03)
