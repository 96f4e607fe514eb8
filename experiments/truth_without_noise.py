"""The settings of ``truth.py`` in made-up seconds: how far the formulas alone are from ``clock=wall``.

``python experiments/truth_without_noise.py [--only NAME ...]``

Nothing waits and no machine's load counts: processes compute side by side in made-up time (``tests/helpers``), in which
a call between two of them takes half a millisecond, and keeps the driver and the process that it goes to busy for
about as long. Needs no Ray, and prints the table of ``truth.py``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from truth import METRIC, SYSTEMS, System, bundle, crossing, learning, report, row, run_keys

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from flexray.calibrate.summing import summed
from flexray.config.compose import build_composed, compose
from flexray.config.given import read_keys
from flexray.config.job import Job
from flexray.core.messages import EvalRecord, Record, RoundRecord
from flexray.core.timings import Timings
from flexray.engine.driver.experiment import WallClock
from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.inline import borrowed_torch
from helpers.made_time import Now, SideBySide, model_that_takes, set_clocks

CALL_S, SUBMIT_S, MESSAGE_S = 0.0005, 0.0004, 0.0006
"""What a call takes on its way, the driver with it, and the process that it goes to."""


def main() -> int:
    """Run all settings and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    options = parser.parse_args()
    now, results = Now(), {}
    takes = model_that_takes(now)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        set_clocks(now, patch)
        for name in options.only:
            for algo, result in settings(SYSTEMS[name], now, takes, Path(home)):
                results[f"{name}/{algo}"] = result
                print(row(f"{name}/{algo}", result), flush=True)
    report(results)
    return 0


def settings(system: System, now: Now, takes: Any, home: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calibrate a system, and yield what every algorithm took, predicted and real."""
    data, file = bundle(home, system), home / "measured.yaml"
    own = {**run_keys(system, data, takes), "cluster": "local"}
    here = job({**own, "algo": "flex", "speeds": "uniform", "rounds": 1})
    (timings,) = (r for r in run(replace(here, experiment=calibrated(here)), now) if isinstance(r, Timings))
    found = summed({64: timings}, [], file)
    found.write()
    links = {name: found.network["t_comm"][name] + t for name, t in zip(system.parties, system.t_comm, strict=True)}
    used = list(system.utilization)
    for algo in system.algorithms:
        limits = {
            "timeout": system.timeout, "eval_train": False, "epochs": None, "cluster": "local", **learning(algo),
        }  # fmt: skip
        predict = {
            **run_keys(system, data, takes, waits=False), **limits, "network": {"t_comm": links},
            "speeds": {"kind": "measured", "path": file, "utilization": used},
        }  # fmt: skip
        real = {
            **own, **limits, "clock": "wall", "network": {"t_comm": list(system.t_comm)},
            "speeds": {"kind": "uniform", "utilization": used},
        }  # fmt: skip
        turns = len(system.parties) if algo == "vafl" else 1
        first = outcome(run(job({**predict, "rounds": 4 * turns}), now))["total"]
        rounds = max(4, round(system.seconds / first * 4 * turns))
        ends = {"rounds": rounds, "eval_every": max(4, rounds // (8 if algo == "vafl" else 25))}
        kinds = {"predicted": predict, "real": real}
        yield (
            algo,
            {
                "rounds": rounds,
                "load": [0.0, 0.0],
                **{kind: outcome(run(job({**keys, **ends}), now)) for kind, keys in kinds.items()},
            },
        )


def job(keys: dict[str, Any]) -> Job:
    """Return the job of some keys."""
    given = read_keys(keys)
    words = ["dataset=bundle", *given.words]
    config, choices = compose(words)
    return build_composed(config, choices, words, Path.cwd(), objects=given.objects)


def calibrated(here: Job) -> Any:
    """Return a job's experiment as a calibration."""
    return replace(here.experiment, wall=WallClock(calibrates_s=4.0))


def run(here: Job, now: Now) -> list[Record]:
    """Return the records of a job."""
    with borrowed_torch():
        return list(
            make_driver(here.experiment, SideBySide(now, CALL_S, SUBMIT_S, MESSAGE_S), here.cluster.placement).run()
        )


def outcome(records: list[Record]) -> dict[str, float | None]:
    """Return the time of a run, and that to its target."""
    rounds = [record for record in records if isinstance(record, RoundRecord)]
    evals = [record for record in records if isinstance(record, EvalRecord)]
    met = crossing([record.sim_time for record in evals], [record.metrics[METRIC] for record in evals])
    return {"total": rounds[-1].sim_time, "to_target": met}


if __name__ == "__main__":
    sys.exit(main())
