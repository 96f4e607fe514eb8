"""The traces that come with flexray are what their README says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from flexray.core.speeds import GOOGLE_MEANS
from flexray.traces.figures import Figures, figures
from flexray.traces.reading import read_trace, shipped_traces, trace_info
from flexray.traces.reports import number
from flexray.traces.synthesize import Wanted, synthesize

README = (shipped_traces()["synthetic64"].parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(shipped_traces()))
def test_each_is_listed_with_its_shape(name: str) -> None:
    trace = read_trace(name)
    machines, length = trace.cpu_mt.shape
    row = next(line for line in README.splitlines() if line.startswith(f"| `{name}`"))
    shape = f"{machines} x {length}" + (f" x {trace.step_s:g} s" if length > 1 else "")
    assert f"| {shape} |" in row
    assert trace.synthetic == ("**synthetic**" in row)
    assert f"## {name}" in README


@pytest.mark.parametrize("path", list(shipped_traces().values()), ids=str)
def test_files_are_small(path: Path) -> None:
    assert path.stat().st_size < 1_000_000


def test_google_means_are_the_papers() -> None:
    trace = read_trace("google_means")
    assert tuple(trace.cpu_mt[:, 0]) == GOOGLE_MEANS
    assert trace.machines[0] == "m01"
    assert trace.machines[-1] == "m13"


def test_the_2019_windows_say_what_they_are() -> None:
    trace = read_trace("google2019_cell")
    assert trace.machines == tuple(f"window_{i:02d}" for i in range(16))
    assert "not machines" in trace.source
    assert "CC-BY 4.0" in trace.source
    assert "a window is not a machine" in README
    assert "https://creativecommons.org/licenses/by/4.0/" in README
    assert not any(trace_info("google2019_cell").cleaning.values())
    assert trace.cpu_mt.mean() == pytest.approx(0.4728, abs=1e-4)
    to_the_next = np.abs(trace.cpu_mt[1:, 0] - trace.cpu_mt[:-1, -1]).mean()
    assert to_the_next < 2 * np.abs(np.diff(trace.cpu_mt, axis=1)).mean(), "windows follow each other"


def table() -> dict[str, tuple[str, str, str]]:
    rows = re.findall(r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \| (yes|no) \|$", README, re.M)
    return {label: (real, synthetic, fitted) for label, real, synthetic, fitted in rows}


def test_the_readmes_figures_are_those_of_the_file() -> None:
    trace = read_trace("synthetic64")
    found: Figures = figures(trace.cpu_mt, trace.step_s)
    measured = {
        "mean utilization": found.mean,
        "spread between machines (sd of means)": found.between,
        "spread within a machine (mean sd)": found.within,
        "autocorrelation, one step": found.lag1,
        "autocorrelation, one day": found.daily,
        "autocorrelation, one hour": found.hourly,
        "lowest": found.minimum,
        "highest": found.maximum,
        **{f"{q}% quantile": v for q, v in zip((5, 25, 50, 75, 95), found.quantiles, strict=True)},
    }
    rows = table()
    assert set(rows) == set(measured)
    for label, (real, synthetic, fitted) in rows.items():
        assert number(measured[label]) == synthetic, label
        if fitted == "yes":
            allowed = 0.01 if label.startswith("auto") else 0.01 * float(real)
            assert abs(float(real) - float(synthetic)) <= allowed, label


def test_the_readmes_command_gives_the_file() -> None:
    given = dict(re.findall(r"--(mean|between|within|lag1|daily|machines|days|seed) ([\d.]+)", README))
    wanted = Wanted(*(float(given[name]) for name in ("mean", "between", "within", "lag1", "daily")))
    length = round(float(given["days"]) * 288)
    cpu_mt = synthesize(wanted, int(given["machines"]), length, 300.0, int(given["seed"]))
    shipped = read_trace("synthetic64").cpu_mt
    assert np.abs(cpu_mt - shipped).max() <= 1.5e-4  # exp and log may differ in the last digit between processors
