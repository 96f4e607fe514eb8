"""An algorithm may leave parties out of a round: they miss it as if they were absent."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from flexray.algorithms.base import Plan
from flexray.algorithms.flex import FlexVFL
from flexray.core.errors import ConfigError
from helpers.jobs import Compose, Run
from helpers.small import rounds_of


class OneAtATime(FlexVFL):
    """Every round has one of three parties."""

    def leaves_out(self, index: int, utilization: Sequence[float]) -> Collection[int]:
        return {0, 1, 2} - {index % 3}


class TooMany(FlexVFL):
    """Leaves out a party that there is not."""

    def leaves_out(self, index: int, utilization: Sequence[float]) -> Collection[int]:
        return [3]


class Stubborn(FlexVFL):
    """Gives everybody work, whatever is frozen or left out."""

    def leaves_out(self, index: int, utilization: Sequence[float]) -> Collection[int]:
        return [1]

    def plan(self, now: object) -> Plan:
        return Plan((21,) * 4, self.system.lr, 30.0, 10.0, (1.0,) * 4)


def own(name: str) -> str:
    return f"algo._target_={__name__}.{name}"


def test_who_is_left_out_misses_the_round(compose_small: Compose, run_inline: Run) -> None:
    records = run_inline(compose_small("rounds=6", own("OneAtATime")))
    rounds = rounds_of(records)
    assert [record.absent for record in rounds] == [(1, 2), (0, 2), (0, 1)] * 2
    assert [[k for k in range(3) if record.tau[k]] for record in rounds] == [[0], [1], [2]] * 2
    assert [[k for k in range(3) if record.up_bytes[k]] for record in rounds] == [[0], [1], [2]] * 2


def test_absences_come_on_top(compose_small: Compose, run_inline: Run) -> None:
    busy = ("speeds=uniform", "speeds.utilization={a:0.9,default:0}", "absence.above={a:0.5}")
    rounds = rounds_of(run_inline(compose_small("rounds=3", *busy, own("OneAtATime"))))
    assert [record.absent for record in rounds] == [(0, 1, 2), (0, 2), (0, 1)]


def test_frozen_and_left_out_take_no_iteration_whatever_the_plan_says(compose_small: Compose, run_inline: Run) -> None:
    rounds = rounds_of(run_inline(compose_small("rounds=2", "frozen=[a]", own("Stubborn"))))
    assert [record.tau for record in rounds] == [(0, 0, 21, 21)] * 2


def test_what_is_no_party_is_refused(compose_small: Compose) -> None:
    with pytest.raises(
        ConfigError, match=r"^algo failed in round 1: it leaves out \[3\], expected numbers from 0 to 2$"
    ):
        compose_small("rounds=2", own("TooMany"))


def test_it_is_of_the_virtual_clock_alone(compose_small: Compose) -> None:
    with pytest.raises(ConfigError, match=r"^clock: the algo leaves parties out of rounds"):
        compose_small("rounds=2", "clock=wall", own("OneAtATime"))
