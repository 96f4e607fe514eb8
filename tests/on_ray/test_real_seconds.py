"""Real seconds on real processes: parties at once, and the same numbers when replayed in one process."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest

from flexray.calibrate.summing import summed
from flexray.core.messages import Record, RoundRecord
from flexray.core.timings import Timings
from flexray.engine.driver.experiment import WallClock
from flexray.run.watch.folder import TableObserver
from helpers.jobs import Compose, Run
from helpers.ray_runs import RunOnRay, digests

pytestmark = pytest.mark.ray

SMALL = ("dataset.batch_size=128", "eval_every=5", "model.hidden=[16]", "model.dropout=0.1")
WALL = ("cluster=local", "clock=wall", "timeout=0.2", "network.t_comm=0.05")


def replayed(records: list[Record], folder: Path, algo: str, compose_job: Compose, run_inline: Run) -> list[Record]:
    table = TableObserver(folder)
    for record in records:
        table.on(record)
    table.close()
    return run_inline(compose_job(f"algo={algo}", "speeds=replay", f"speeds.path={folder}", *SMALL))


def rounds_of(records: list[Record]) -> list[RoundRecord]:
    return [record for record in records if isinstance(record, RoundRecord)]


@pytest.mark.parametrize("algo", ["flex", "sync_max"])
def test_rounds_in_real_time(
    algo: str, compose_job: Compose, run_inline: Run, on_ray: RunOnRay, tmp_path: Path
) -> None:
    records = on_ray(compose_job(f"algo={algo}", *WALL, *SMALL, "speeds=google_mean", "rounds=6"))
    again = replayed(records, tmp_path, algo, compose_job, run_inline)
    assert digests(again) == digests(records)
    assert [r.sim_time for r in rounds_of(again)] == [r.sim_time for r in rounds_of(records)]
    for record in rounds_of(records):
        assert record.duration >= (0.25 if algo == "flex" else 0.05)
        assert min(record.tau) >= 1
        assert len(set(record.tau)) > 1 or algo == "sync_max"


def test_turns_in_real_time(compose_job: Compose, run_inline: Run, on_ray: RunOnRay, tmp_path: Path) -> None:
    speed = ("speeds=uniform", "network.t_comm=[0.05,0.05,0.05,0.4]")
    records = on_ray(compose_job("algo=vafl", *WALL, *SMALL, *speed, "rounds=40"))
    again = replayed(records, tmp_path, "vafl", compose_job, run_inline)
    assert digests(again) == digests(records)
    found = rounds_of(records)
    assert [r.party for r in rounds_of(again)] == [r.party for r in found]
    assert all(a.sim_time <= b.sim_time for a, b in itertools.pairwise(found))
    turns = [[r for r in found if r.party == k] for k in range(4)]
    assert 1 <= len(turns[3]) < min(len(own) for own in turns[:3])
    assert found[-1].sim_time < math.fsum(r.duration for r in found) / 2  # turns overlap


def test_calibrated_on_its_processes(compose_job: Compose, on_ray: RunOnRay, tmp_path: Path) -> None:
    job = compose_job("cluster=local", "algo=flex", *SMALL, "speeds=uniform", "rounds=1")
    _, found = on_ray(replace(job, experiment=replace(job.experiment, wall=WallClock(calibrates_s=0.5))))
    assert isinstance(found, Timings)
    assert (found.process, len(set(found.machine))) == ((0, 1, 2, 3, 4), 1)
    file = summed({128: found}, [], tmp_path / "measured.yaml")
    assert min(file.network["t_comm"].values()) > 0  # messages really travel
    assert 0 < file.driver_s < 0.1
    file.write()
    again = compose_job("algo=flex", *SMALL, "speeds=measured", f"speeds.path={file.path}", "rounds=1")
    assert again.experiment.time_unit == "seconds"
