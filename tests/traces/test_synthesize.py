from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flexray.traces.reading import read_trace
from flexray.traces.synthesize import TOLERANCE, Wanted, distance, measure, synthesize
from helpers.trace_files import run

JOBS = Wanted(mean=0.2124, between=0.1072, within=0.03255, lag1=0.6685, daily=0.3463)


@pytest.mark.parametrize(
    ("wanted", "machines", "days", "step_s"),
    [
        (JOBS, 64, 7, 300),
        (JOBS, 13, 3, 300),
        (Wanted(0.5, 0.05, 0.1, 0.9, 0.0), 20, 4, 300),
        (Wanted(0.3, 0.2, 0.05, 0.3, 0.25), 30, 14, 900),
        (Wanted(0.1, 0.08, 0.02, 0.95, 0.6), 10, 10, 600),
    ],
)
def test_figures_are_met(wanted: Wanted, machines: int, days: int, step_s: int) -> None:
    cpu_mt = synthesize(wanted, machines, days * 86_400 // step_s, step_s, seed=5)
    assert cpu_mt.shape == (machines, days * 86_400 // step_s)
    assert distance(measure(cpu_mt, step_s), wanted) < TOLERANCE
    assert cpu_mt.min() > 0
    assert cpu_mt.max() <= 1
    assert np.array_equal(cpu_mt, np.round(cpu_mt, 4))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    files = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        path = tmp_path / f"{name}.parquet"
        arguments = ("--like", "synthetic64", "--machines", 8, "--days", 2, "--seed", seed)
        assert run("synthesize", *arguments, "-o", path) == 0
        files.append(path.read_bytes())
    assert files[0] == files[1] != files[2]


def test_like_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.parquet"
    assert run("synthesize", "--like", "synthetic64", "--machines", 20, "-o", path, "--mean", 0.3) == 0
    trace, model = read_trace(path), read_trace("synthetic64")
    assert trace.synthetic
    assert trace.source.startswith("synthetic, seed 0: mean=0.3 ")
    assert trace.machines[0] == "synthetic_00"
    assert len(trace.machines) == 20
    wanted = measure(model.cpu_mt, model.step_s)
    wanted = Wanted(0.3, wanted.between, wanted.within, wanted.lag1, wanted.daily)
    assert distance(measure(trace.cpu_mt, 300), wanted) < TOLERANCE
    assert "synthetic64" in capsys.readouterr().out
