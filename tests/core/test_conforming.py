"""What was read is compared with the types of what was written."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from flexray.algorithms.base import Plan
from flexray.core.clock import Stopwatch
from flexray.core.conforming import as_it_was_saved, conforms
from flexray.core.errors import RunFolderError
from flexray.core.messages import Report

PLAN = Plan((1, 2), (0.1, 0.2), 10.0, 1, (1.0, 2.0))
EVAL = {"round": int, "note": (None, str)}


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (3, int, True), (-3, int, False), (True, int, False), (3.0, int, False), ("3", int, False),
        (10**400, int, False),
        (3, float, True), (-3.5, float, True), (float("nan"), float, True), (np.float64(2), float, True),
        (True, float, False), ("3", float, False), (10**400, float, False), (None, float, False),
        (None, None, True), (0, None, False), (None, int | None, True), ("x", int | None, False),
        ([1, 2], list[int], True), ((1, 2), list[int], False), ([1, "2"], list[int], False), ([], list[int], True),
        ((1, 2), tuple[int, ...], True), ((1, "x"), tuple[int, str], True), ((1,), tuple[int, str], False),
        ({"a": 1}, dict[str, int], True), ({1: 1}, dict[str, int], False), ({"a": "b"}, dict[str, int], False),
        ("fill", Literal["fixed", "fill"], True), ("x", Literal["fixed", "fill"], False), (object(), Any, True),
        (PLAN, Plan, True), (Plan("ab", (0.1,), 1.0, 1.0, ()), Plan, False), ({}, Plan, False),
        (Report(1, 1.0, None), Report, True), (Report(1, "x"), Report, False), ((1, 1.0), Report, False),
        (Stopwatch(3.0), Stopwatch, True), (Stopwatch("x"), Stopwatch, False),
        ({"round": 1, "note": None}, EVAL, True), ({"round": 1}, EVAL, False), ({"round": 1, "note": 2}, EVAL, False),
    ],
)  # fmt: skip
def test_a_value_conforms_in_all_its_parts_or_not(value: Any, kind: Any, fits: bool) -> None:
    assert conforms(value, kind) is fits


def test_whatever_shows_that_something_does_not_fit_is_one_line() -> None:
    said = r"^a: what is saved of it does not fit this run: KeyError: 'b'$"
    with pytest.raises(RunFolderError, match=said), as_it_was_saved("a"):
        {}["b"]
    with pytest.raises(RunFolderError, match=r"^mine$"), as_it_was_saved("a"):
        raise RunFolderError("mine")
