"""Plans of a user's own algorithm: taken in NumPy's numbers, refused in one line where they mean nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flexray.algorithms.base import Moment, Plan
from flexray.algorithms.checked import checked
from flexray.core.errors import ConfigError

GOOD = Plan((1, 2, 3), (0.1, 0.0, 0.3), 30.0, 10.0, (4.0, math.inf, 1.0))
NOW = Moment(0, 7.0, (0.0, 1.0, 0.0))
ALL = (True, True, True)


def test_numbers_of_any_kind_become_plain_ones() -> None:
    used = np.array([0, 1, 0.5], dtype=np.float32)
    given: Any = Plan(
        np.array([1, 2, 3]), [np.float32(0.5), 0, True], np.int64(30), np.float64(10), [4, 1, 1], 37, used
    )  # type: ignore[arg-type]
    plan = checked(replace(given, tau=(np.int8(1), 2.0, np.float64(3))), NOW, "round 1", (True, False, True))
    assert plan == Plan((1, 0, 3), (0.5, 0.0, 1.0), 30.0, 10.0, (4.0, 1.0, 1.0), 37.0, (0.0, 1.0, 0.5))
    assert checked(given, NOW, "round 1", ALL) == replace(plan, tau=(1, 2, 3))
    numbers = (*plan.tau, *plan.lr, plan.duration_units, plan.comm_units, *plan.unit_times, *(plan.utilization or ()))
    assert [type(n) for n in numbers] == [int] * 3 + [float] * 11
    assert checked(GOOD, NOW, "round 1", ALL) == GOOD


WHOLE, FINITE = "expected 3 whole numbers of at least 0", "expected 3 finite numbers of at least 0"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tau": (1, -3, 2)}, f"tau [1, -3, 2], {WHOLE}"),
    ({"tau": (1, 2)}, f"tau [1, 2], {WHOLE}"),
    ({"tau": (1, 1.5, 2)}, f"tau [1, 1.5, 2], {WHOLE}"),
    ({"tau": (1, math.nan, 2)}, f"tau [1, nan, 2], {WHOLE}"),
    ({"tau": (1, math.inf, 2)}, f"tau [1, inf, 2], {WHOLE}"),
    ({"tau": (1, None, 2)}, f"tau [1, None, 2], {WHOLE}"),
    ({"tau": "123"}, f"tau ['1', '2', '3'], {WHOLE}"),
    ({"tau": 5}, f"tau 5, {WHOLE}"),
    ({"tau": np.ones((3, 2), dtype=int)}, f"tau [array([1, 1]), array([1, 1]), array([1, 1])], {WHOLE}"),
    ({"tau": [0] * 99}, f"tau [{'0, ' * 33}..., {WHOLE}"),
    ({"lr": (0.1, -0.1, 0.1)}, f"lr [0.1, -0.1, 0.1], {FINITE}"),
    ({"lr": (0.1, math.nan, 0.1)}, f"lr [0.1, nan, 0.1], {FINITE}"),
    ({"lr": (0.1, math.inf, 0.1)}, f"lr [0.1, inf, 0.1], {FINITE}"),
    ({"lr": None}, f"lr None, {FINITE}"),
    ({"duration_units": -1.0}, "duration_units -1.0, expected a finite number of at least 0"),
    ({"duration_units": math.nan}, "duration_units nan, expected a finite number of at least 0"),
    ({"duration_units": math.inf}, "duration_units inf, expected a finite number of at least 0"),
    ({"duration_units": "9"}, "duration_units '9', expected a finite number of at least 0"),
    ({"duration_units": 5.0}, "comm_units 10.0, expected a finite number from 0 to the duration, 5"),
    ({"unit_times": (1.0, math.nan, 1.0)}, "unit_times [1.0, nan, 1.0], expected 3 numbers of at least 0"),
    ({"server_units": -1.0}, "server_units -1.0, expected a finite number of at least 0"),
    ({"end_units": 6.0}, "end_units 6.0, expected a finite number of at least 7"),
    ({"utilization": (0.0, 2.0, 0.0)}, "utilization [0.0, 2.0, 0.0], expected 3 numbers from 0 to 1"),
    ({"pace": "slow"}, "pace 'slow', expected one of: fixed, fill, slowest"),
]


@pytest.mark.parametrize(("changes", "line"), REFUSED)
def test_what_cannot_be_carried_out_is_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(replace(GOOD, **changes), NOW, "round 1", ALL)
    assert str(caught.value) == f"algo failed in round 1: its plan has {line}"
