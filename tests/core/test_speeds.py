"""From utilization to local iterations and unit times."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

from flexray.config.speeds import build_speeds
from flexray.core.errors import ConfigError
from flexray.core.speeds import (
    GOOGLE_MEANS,
    FixedSpeeds,
    all_unit_times,
    clip,
    equal_groups,
    google_means,
    local_iterations,
)

PUBLISHED_MEANS = [0.3638092, 0.17014983, 0.14333789, 0.33265191, 0.17415424, 0.06804619, 0.14446286, 0.29251583,
              0.2207424, 0.12800219, 0.27062089, 0.13972783, 0.30291598]  # fmt: skip
PUBLISHED_TAU = [12, 16, 17, 13, 16, 18, 17, 14, 15, 17, 14, 17, 13]


def names(num_parties: int) -> list[str]:
    return [*(f"p{k}" for k in range(num_parties)), "server"]


def speeds(kind: str, dataset: str, num_parties: int, timeout: float | None = None, **node: object):
    config = {
        "speeds": {
            "kind": kind,
            "iterations": None,
            "unit_time": None,
            "utilization": None,
            "max_utilization": 0.99,
            **node,
        }
    }
    return build_speeds({**config, "timeout": timeout}, dataset, names(num_parties), Path())


def taus(timeout: float, fixed: FixedSpeeds) -> list[int]:
    utilization = fixed.utilization(0, 0.0)
    return [local_iterations(timeout, b, c) for b, c in zip(fixed.base_units, utilization, strict=True)]


def test_floor_trap():
    assert local_iterations(20, 1.0, 0.15) == 17
    assert math.floor(20 * (1 - 0.8)) == 3  # the plain formula falls into it
    assert local_iterations(20, 1.0, 0.8) == 4
    assert local_iterations(100, 1.0, 0.34) == 66


@pytest.mark.parametrize("base", ["1", "4", "2", "4/3", "5", "2.5", "5/3", "1.25", "0.1"])
@pytest.mark.parametrize("timeout", [1, 10, 20, 25, 30, 35, 40, 100])
def test_floor_is_that_of_exact_arithmetic(timeout, base):
    exact_base = Fraction(base)
    for hundredths in range(101):
        exact = max(1, math.floor(timeout * (1 - Fraction(hundredths, 100)) / exact_base))
        assert local_iterations(timeout, float(exact_base), hundredths / 100) == exact, hundredths


@pytest.mark.parametrize("iterations", range(1, 101))
def test_iterations_per_timeout_come_back_from_their_unit_time(iterations):
    for timeout in (6, 10, 20, 30):
        assert local_iterations(timeout, timeout / iterations, 0.0) == iterations


def test_utilization_just_above_a_step_does_not_count_as_on_it():
    assert local_iterations(20, 1.0, 0.15 + 1e-6) == 16
    assert local_iterations(20, 1.0, 0.15 - 1e-6) == 17


def test_full_and_clipped_utilization():
    assert [clip(c) for c in (-0.5, 0.0, 0.3, 1.0, 7.0)] == [0.0, 0.0, 0.3, 1.0, 1.0]
    assert local_iterations(20, 1.0, 1.0) == local_iterations(20, 1.0, 3.0) == 1
    assert local_iterations(20, 1.0, -2.0) == 20
    assert local_iterations(20, 50.0, 0.0) == 1
    assert local_iterations(20, math.inf, 0.0) == 1


def test_unit_times():
    times = all_unit_times((4.0, 2.0, 1.0, 1.0, 1.0), (0.0, 0.75, -1.0, 1.0, 2.0))
    assert times == (4.0, 8.0, 1.0, math.inf, math.inf)


def test_average_google_speeds():
    assert list(GOOGLE_MEANS) == PUBLISHED_MEANS
    assert [local_iterations(20, 1.0, c) for c in google_means(12)] == PUBLISHED_TAU
    assert list(google_means(3)) == [*PUBLISHED_MEANS[:3], PUBLISHED_MEANS[12]]
    assert list(google_means(14)) == [*PUBLISHED_MEANS[:12], *PUBLISHED_MEANS[:2], PUBLISHED_MEANS[12]]
    timeout, fixed = speeds("google_mean", "digits", 12)
    assert (timeout, taus(timeout, fixed)) == (20.0, PUBLISHED_TAU)
    timeout, fixed = speeds("google_mean", "digits", 26)
    assert taus(timeout, fixed) == [*PUBLISHED_TAU[:12], *PUBLISHED_TAU[:12], *PUBLISHED_TAU[:2], 13]


@pytest.mark.parametrize(
    ("dataset", "timeout", "iterations"),
    [
        ("mosei", 20.0, [5, 10, 15, 20]),
        ("imagenet100", 10.0, [2, 4, 6, 8, 10]),
        ("modelnet40", 20.0, [5, 5, 5, 10, 10, 10, 15, 15, 15, 20, 20, 20, 20]),
        ("digits", 20.0, [5, 10, 15, 20, 20]),
        ("bundle", 20.0, [5, 5, 10, 10, 15, 15, 20, 20, 20]),
        ("table", 20.0, [5, 20]),
    ],
)
def test_fixed_speeds_of_the_paper(dataset, timeout, iterations):
    found, fixed = speeds("paper", dataset, len(iterations) - 1)
    assert (found, taus(found, fixed)) == (timeout, iterations)
    assert fixed.utilization(7, 99.0) == (0.0,) * len(iterations)


def test_equal_groups_in_order():
    assert equal_groups(4) == (5, 10, 15, 20, 20)
    assert equal_groups(16) == (*(5,) * 4, *(10,) * 4, *(15,) * 4, *(20,) * 4, 20)
    assert equal_groups(3, (5, 10, 15)) == (5, 10, 15, 15)
    for num_parties in range(4, 40):
        counts = [equal_groups(num_parties)[:-1].count(n) for n in (5, 10, 15, 20)]
        assert max(counts) - min(counts) <= 1


def test_a_longer_timeout_gives_more_iterations():
    timeout, fixed = speeds("paper", "modelnet40", 12, timeout=40.0)
    assert (timeout, taus(timeout, fixed)) == (40.0, [10] * 3 + [20] * 3 + [30] * 3 + [40] * 4)


def test_uniform_and_overrides():
    timeout, fixed = speeds("uniform", "digits", 2)
    assert (timeout, taus(timeout, fixed)) == (20.0, [20, 20, 20])
    _, fixed = speeds("uniform", "digits", 2, utilization={"p0": 0.15, "server": 1.0})
    assert taus(20.0, fixed) == [17, 20, 1]
    _, fixed = speeds("uniform", "digits", 2, iterations=[4, 8])
    assert fixed.base_units == (5.0, 2.5, 1.0)
    _, fixed = speeds("paper", "digits", 2, unit_time=[1, 2, 3], utilization=0.5)
    assert taus(20.0, fixed) == [10, 5, 3]


@pytest.mark.parametrize(
    ("node", "key"),
    [
        ({"utilization": 1.1}, "speeds.utilization"),
        ({"utilization": [0.1, -0.1, 0.2]}, r"speeds.utilization\[1\]"),
        ({"utilization": math.nan}, "speeds.utilization"),
        ({"iterations": 0}, "speeds.iterations"),
        ({"iterations": True}, "speeds.iterations"),
        ({"unit_time": {"p7": 1.0}}, "speeds.unit_time.*p7"),
        ({"unit_time": 1.0, "iterations": 2}, "speeds.unit_time"),
        ({"kind": "papr"}, "speeds.kind.*papr.*paper"),
    ],
)
def test_mistakes_are_named(node, key):
    with pytest.raises(ConfigError, match=key):
        speeds(**{"kind": "uniform", "dataset": "digits", "num_parties": 2, **node})
