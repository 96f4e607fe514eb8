"""The script for whoever has a GPU: its CPU part, small."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

import pytest

from flexray.engine.parties.devices import Compute

SCRIPT = Path(__file__).parents[2] / "experiments" / "gpu_check.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gpu_check"]


def test_losses_in_bf16_agree_and_those_of_another_run_do_not(script, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "run", functools.cache(script.run))
    case = script.Case(parties=1, depth=18, batch=6, size=32, rounds=1)
    assert script.check_losses("cpu", case)
    assert "within 0.05" in capsys.readouterr().out
    reference = script.run(case, Compute())
    assert len(reference.losses) == 2
    assert len(reference.seconds) == 1
    other = script.run(script.Case(parties=1, depth=18, batch=4, size=32, rounds=1), Compute())
    assert script.difference(reference, other) > script.TOLERANCES["bf16"]
    assert script.difference(reference, reference) == 0


def test_seconds_of_a_round_are_printed(script, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--device", "cpu", "--parties", "1", "--depth", "18", "--batch", "2", "--size", "32", "--rounds", "2"]
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", *words])
    monkeypatch.setattr(script, "check_losses", lambda device: device == "cuda")
    assert script.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["cpu fp32", "cpu bf16"]
    assert all(line.count("s a round") == 1 and "; losses " in line for line in lines[1:])
