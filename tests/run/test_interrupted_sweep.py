"""Ctrl-C of a sweep whose jobs run side by side: it ends at once, and the same command goes on exactly."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from flexray.run.command import run_command
from helpers.processes import within
from helpers.typed import Typed, typed

COMMAND = ("-m", "flexray.run", "-m", "cluster=inline", "progress=false", "dataset.batch_size=256",
           "epochs=null", "stop_at_target=false", "eval_train=false", "checkpoint.every=10", "seed=1,2,3")  # fmt: skip
SIDE_BY_SIDE = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "resume=auto", "hydra.sweep.dir=out")


def saved(folder: Path) -> list[int]:
    return [int(path.stem.removeprefix("round-")) for path in folder.glob("checkpoints/round-*.json")]


@pytest.mark.slow
def test_it_leaves_no_process_and_goes_on_exactly(tmp_path: Path) -> None:
    jobs = [tmp_path / "out" / str(job) for job in range(3)]
    process = Typed([*COMMAND, *SIDE_BY_SIDE, "rounds=1000000"], tmp_path, own_group=True)
    assert within(100, lambda: process.poll() is not None or all(map(saved, jobs[:2])))
    family = psutil.Process(process.pid).children(recursive=True)
    both_began = all(map(saved, jobs[:2]))
    os.killpg(process.pid, signal.SIGINT)
    status, *said = process.end(30)
    assert (both_began, status) == (True, 130), said
    assert not psutil.wait_procs(family, timeout=10)[1]
    assert not jobs[2].exists()
    rounds = max(max(saved(job)) for job in jobs[:2]) + 5
    status, said = typed([*COMMAND, *SIDE_BY_SIDE, "hydra.launcher.n_jobs=1", f"rounds={rounds}"], tmp_path)
    assert status == 0, said
    assert run_command([*COMMAND[2:], f"hydra.sweep.dir={tmp_path / 'undisturbed'}", f"rounds={rounds}"]) == 0
    for job in jobs:
        found, expected = (
            json.loads((tmp_path / d / job.name / "summary.json").read_text()) for d in ("out", "undisturbed")
        )
        assert found["model_digest"] == expected["model_digest"]
        assert bool(found["resumed_from"]) == (job in jobs[:2])
        table = (tmp_path / "undisturbed" / job.name / "rounds.csv").read_bytes()
        assert (job / "rounds.csv").read_bytes() == table
