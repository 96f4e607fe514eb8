"""Seconds of rounds and turns on machines that were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flexray.core.measured import NO_WAIT, Measured

ALONE = Measured(
    iteration_s=(0.01, 0.02, 0.005),
    first_s=(0.015, 0.02, 0.005),
    together_s=(0.0, 0.0, 0.0),
    embedding_s=(0.004, 0.002, 0.0),
    turn_s=(0.02, 0.03, 0.01),
    round_s=0.001,
    process=(0, 1, 2),
    machine=(0, 1, 2),
    cores=(NO_WAIT,) * 3,
)
"""Two parties and the server, each on a machine of its own."""
IDLE = (1.0, 1.0, 1.0)


def test_a_round_lasts_its_timeout_and_what_comes_on_top() -> None:
    assert ALONE.round_seconds((8, 5, 20), IDLE, 0.1) == pytest.approx(0.1 + 0.004 + 0.001)
    assert ALONE.round_seconds((8, 5, 20), IDLE, 0.1, frozenset({0})) == pytest.approx(0.1 + 0.002 + 0.001)


def test_without_a_timeout_it_waits_for_the_slowest() -> None:
    assert ALONE.round_seconds((1, 1, 1), IDLE, 0.0) == pytest.approx(0.02 + 0.002 + 0.001)
    assert ALONE.round_seconds((10, 2, 1), IDLE, 0.0) == pytest.approx(0.015 + 9 * 0.01 + 0.004 + 0.001)


def test_a_busy_machine_stretches_all_of_a_round_that_is_as_long_as_its_iterations() -> None:
    half = (1.0, 0.5, 1.0)
    assert ALONE.round_seconds((1, 1, 1), half, 0.0) == pytest.approx(2 * 0.02 + 2 * 0.005 - 0.005 + 0.002 + 0.001)
    assert ALONE.round_seconds((8, 2, 20), half, 0.1) == pytest.approx(0.1 + 0.005)  # it fits


def test_an_iteration_longer_than_the_timeout_is_waited_for_unless_overruns_are_ignored() -> None:
    assert ALONE.round_seconds((1, 1, 1), IDLE, 0.012) == pytest.approx(0.02 + 0.005)
    assert ALONE.round_seconds((1, 1, 1), IDLE, 0.012, waits=False) == pytest.approx(0.012 + 0.005)


def test_who_fills_the_timeout_begins_nothing_that_does_not_fit() -> None:
    assert ALONE.round_seconds((10, 1, 1), IDLE, 0.1) == pytest.approx(0.105 + 0.005)  # the first takes longer
    assert ALONE.round_seconds((10, 1, 1), IDLE, 0.1, fills=True) == pytest.approx(0.1 + 0.005)


def test_participants_of_one_process_compute_one_after_another() -> None:
    one = replace(ALONE, process=(0, 0, 0), machine=(0, 0, 0), cores=(NO_WAIT,))
    assert one.round_seconds((8, 5, 20), IDLE, 0.1) == pytest.approx(3 * 0.1 + 0.006 + 0.001)
    assert one.round_seconds((1, 1, 1), IDLE, 0.0) == pytest.approx(0.04 + 0.006 + 0.001)


def test_participants_of_one_machine_wait_for_a_core() -> None:
    two = replace(ALONE, machine=(0, 0, 0), cores=(2.0,))
    assert two.unit_s((False, False, False)) == pytest.approx((0.015, 0.03, 0.0075))
    assert two.unit_s((False, False, True)) == pytest.approx(ALONE.iteration_s)
    timed = replace(two, together_s=(0.013, 0.0, 0.006))
    assert timed.unit_s((False, False, False)) == pytest.approx((0.013, 0.03, 0.006))
    assert timed.with_iterations((0.02, 0.02, 0.005)).unit_s((False,) * 3) == pytest.approx((0.026, 0.03, 0.006))
    works = (0.015 + 0.004, 0.02 + 0.002, 0.005)  # the server ends first, at two thirds of a core for each
    assert two.round_seconds((1, 1, 1), IDLE, 0.0) == pytest.approx(sum(works[2:]) * 1.5 + works[1] - 0.005 + 0.001)
    one = replace(ALONE, machine=(0, 0, 0), cores=(1.0,))
    assert one.round_seconds((1, 1, 1), IDLE, 0.0) == pytest.approx(sum(works) + 0.001)


def test_a_turn_rests_for_the_answer_too() -> None:
    links = (0.0, 0.1)
    assert ALONE.turn_seconds(0, IDLE, links) == pytest.approx(0.02)
    assert ALONE.turn_seconds(1, (1.0, 0.5, 1.0), links) == pytest.approx(2 * 0.04 - 0.01)


def test_a_turn_rests_for_the_driver_and_for_its_wait_too() -> None:
    slower = replace(ALONE, driver_s=0.002)
    assert slower.turn_seconds(0, IDLE, (0.0, 0.1), queued_s=0.005) == pytest.approx(0.02)
    assert slower.turn_seconds(1, (1.0, 0.5, 1.0), (0.0, 0.1)) == pytest.approx(2 * 0.042 - 0.012)
    assert slower.turn_seconds(1, (1.0, 0.5, 1.0), (0.0, 0.1), queued_s=0.005) == pytest.approx(2 * 0.047 - 0.017)


def test_turns_of_one_process_come_one_after_another() -> None:
    one = replace(ALONE, process=(0, 0, 0), machine=(0, 0, 0), cores=(NO_WAIT,))
    rates = (1 / 0.03, 1 / 0.04)
    busy = 0.02 * rates[0] + 0.03 * rates[1] + 0.01 * sum(rates)
    assert busy == pytest.approx(2)
    assert one.turn_seconds(0, IDLE, (0.0, 0.0)) == pytest.approx(0.03 * busy - 0.01)
    assert one.turn_seconds(0, IDLE, (1.0, 1.0)) == pytest.approx(0.02)  # messages travel meanwhile


def test_the_driver_keeps_a_core_of_the_servers_machine_busy() -> None:
    def turn_s(machine: tuple[int, ...], driver_s: float) -> float:
        there = replace(ALONE, machine=machine, cores=(1.0, 1.0), driver_s=driver_s)
        return there.turn_seconds(0, IDLE, (0.0, 0.0))

    apart, together = (0, 0, 1), (0, 0, 0)
    rates = 1 / 0.034 + 1 / 0.044
    asked = 0.02 / 0.034 + 0.03 / 0.044 + 0.014 * rates
    assert turn_s(together, 0.004) == pytest.approx(0.034 * asked - 0.014)
    assert turn_s(apart, 0.004) == pytest.approx(0.034 * (asked - 0.014 * rates) - 0.014)


def test_other_seconds_of_an_iteration_are_those_of_its_first_and_of_its_turn() -> None:
    other = ALONE.with_iterations((0.01, 0.05, 0.005))
    assert other.first_s == pytest.approx((0.015, 0.05, 0.005))
    assert other.turn_s == pytest.approx((0.02, 0.06, 0.01))
