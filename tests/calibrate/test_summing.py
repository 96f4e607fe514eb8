"""From what was measured to a file: medians, and what is left when their sum is taken from whole rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flexray.calibrate.summing import summed
from flexray.config.measured import read_measured
from flexray.core.timings import Timings

TIMINGS = Timings(
    names=("a", "b", "server"),
    process=(0, 1, 2),
    machine=("box", "box", "box"),
    alone=((0.010, 0.011, 0.030), (0.02,) * 3, (0.005,) * 3),
    first=((0.012,), (0.021,), (0.005,)),
    together=((0.011,), (0.02,), (0.005,)),
    embedding=((0.003,), (0.004,), ()),
    rounds=(0.031, 0.032, 0.050),
    turn=((0.025,), (0.04,), ()),
    answer=(0.006,),
    small=((0.001, 0.002), (0.001, 0.009), ()),
    round_message=((0.00104, 0.003), (0.003, 0.004), ()),
    round_bytes=(1000, 2000),
    turn_bytes=(100, 200),
    evaluation=(0.5, 0.1),
)
HERE = Path("measured.yaml")


def test_medians_and_what_is_left() -> None:
    found = summed({8: TIMINGS}, ["dataset=table"], HERE)
    assert found.network == {"t_comm": {"a": 0.00104, "b": 0.001}, "bandwidth": {"b": 1e6}}
    assert found.participants["a"] == {
        "iteration_s": 0.011, "first_s": 0.012, "together_s": 0.011, "embedding_s": 0.003, "turn_s": 0.01796,
        "spread": 0.909,
    }  # fmt: skip
    assert found.participants["server"] == {
        "iteration_s": 0.005,
        "first_s": 0.005,
        "together_s": 0.005,
        "turn_s": 0.006,
        "spread": 0.0,
    }
    assert found.participants["b"]["turn_s"] == pytest.approx(0.04 - 0.006 - 0.001 - 0.0002)
    assert found.round_s == pytest.approx(0.032 - (0.021 + 0.004) - (0.001 + 0.002))
    assert (found.evaluation_s, found.machines, found.about["batch_sizes"]) == (0.1, {}, [8])
    title, first = (line.split() for line in repr(found).splitlines()[:2])
    assert title == ["milliseconds", "iteration", "spread", "together", "first", "embedding", "turn", "link"]
    assert first == ["a", "11.000", "91", "%", "11.000", "12.000", "3.000", "17.960", "1.040"]


def test_what_the_driver_and_messages_take_is_no_partys_own(tmp_path: Path) -> None:
    found = summed({8: replace(TIMINGS, between=(0.001, 0.002, 0.009), driver=(0.003,))}, [], tmp_path / "found.yaml")
    assert found.driver_s == 0.003
    assert found.participants["server"]["turn_s"] == 0.006 + 0.002
    assert found.participants["a"]["turn_s"] == pytest.approx(0.01796 - 0.002 - 0.003)
    found.write()
    read = read_measured(found.path, TIMINGS.names).measured
    assert (read.driver_s, read.turn_s[2]) == (0.003, 0.008)


def test_a_round_is_predicted_as_it_was_measured(tmp_path: Path) -> None:
    crowd = replace(TIMINGS, together=((0.022,), (0.04,), (0.01,)), rounds=(0.06,))
    for number, timings in enumerate((TIMINGS, crowd, replace(crowd, process=(0, 0, 1)))):
        file = tmp_path / f"{number}.yaml"
        found = summed({8: timings}, [], file)
        found.write()
        read = read_measured(file, timings.names)
        links = (found.network["t_comm"][name] for name in "ab")
        widths = (found.network.get("bandwidth", {}).get(name, 1e18) for name in "ab")
        link = max(t + size / width for t, size, width in zip(links, timings.round_bytes, widths, strict=True))
        took_s = read.measured.round_seconds((1, 1, 1), (1.0,) * 3, 0.0) + link
        assert took_s == pytest.approx(sorted(timings.rounds)[len(timings.rounds) // 2], rel=1e-3)


def test_cores_tell_how_much_longer_computing_together_takes() -> None:
    found = summed({8: replace(TIMINGS, together=((0.022,), (0.04,), (0.01,)))}, [], HERE)
    assert found.machines == {"box": {"cores": 1.5}}
    assert {own["machine"] for own in found.participants.values()} == {"box"}
    apart = replace(TIMINGS, together=((0.022,), (0.04,), (0.01,)), machine=("box", "box", "other"))
    found = summed({8: apart}, [], HERE)
    assert found.machines == {"box": {"cores": 1.0}}
    assert "machine" not in found.participants["server"]


def test_in_one_process_nothing_travels() -> None:
    found = summed({8: replace(TIMINGS, process=(0, 0, 0), rounds=(0.5,))}, [], HERE)
    assert found.network == {"t_comm": {"a": 0.0, "b": 0.0}}
    assert found.round_s == pytest.approx(0.5 - (0.012 + 0.021 + 0.005 + 0.007))
    assert {own["process"] for own in found.participants.values()} == {1}


def test_who_takes_no_iterations_counts_as_the_slowest() -> None:
    idle = replace(TIMINGS, alone=(TIMINGS.alone[0], TIMINGS.alone[1], ()), first=((0.01,), (0.02,), ()))
    assert summed({8: idle}, [], HERE).participants["server"]["iteration_s"] == 0.02


def test_several_batch_sizes() -> None:
    larger = replace(TIMINGS, alone=((0.1,),) * 3, round_bytes=(2000, 4000))
    found = summed({64: larger, 16: TIMINGS}, [], HERE)
    assert found.participants["a"]["iteration_s"] == {16: 0.011, 64: 0.1}
    assert found.about["batch_sizes"] == [16, 64]
