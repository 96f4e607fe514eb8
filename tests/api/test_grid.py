"""The runs of a sweep, from a grid or a list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flexray.api.grid import entries, swept_by
from flexray.core.errors import ConfigError


def words(grid: Any, seeds: Any = 1, keys: dict[str, Any] | None = None, unless: str = "") -> list[str]:
    return [" ".join(entry.words) for entry in entries(grid, seeds, keys or {}, unless)]


def test_a_grid_runs_all_combinations_the_seeds_of_each_one_after_another() -> None:
    assert words({"algo": ["flex", "vafl"], "lr": (0.1, 0.2)}, seeds=2) == [
        "algo=flex lr=0.1 seed=1", "algo=flex lr=0.1 seed=2", "algo=flex lr=0.2 seed=1", "algo=flex lr=0.2 seed=2",
        "algo=vafl lr=0.1 seed=1", "algo=vafl lr=0.1 seed=2", "algo=vafl lr=0.2 seed=1", "algo=vafl lr=0.2 seed=2",
    ]  # fmt: skip


def test_values_are_those_of_simulate() -> None:
    grid = {"network.t_comm": np.array([5, 50]), "model.hidden": [[8]], "speeds": "uniform", "target": None}
    assert words(grid, [np.int64(7)], {"dataset": {"batch_size": 8}}) == [
        f"dataset.batch_size=8 network.t_comm={t} model.hidden=[8] speeds=uniform target=null seed=7" for t in (5, 50)
    ]
    assert words({}, range(3, 5)) == ["seed=3", "seed=4"]


def test_a_list_says_what_differs_from_run_to_run() -> None:
    listed: list[Any] = [["algo=flex", "lr=0.1"], "algo=vafl", {"model": {"hidden": [4]}}]
    assert words(listed, keys={"rounds": 3}) == [
        "rounds=3 algo=flex lr=0.1 seed=1", "rounds=3 algo=vafl seed=1", "rounds=3 model.hidden=[4] seed=1",
    ]  # fmt: skip
    assert swept_by(listed) == ["algo", "lr", "model"]
    assert swept_by({"lr": [1, 2]}) == ["lr"]


def test_a_choice_is_made_for_those_that_make_none() -> None:
    listed = [["cluster=packed"], ["cluster.kind=local"], ["cluster.address=auto"], []]
    assert words(listed, unless="cluster=inline") == [
        "cluster=packed seed=1", "cluster.kind=local seed=1", "cluster=inline cluster.address=auto seed=1",
        "cluster=inline seed=1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("grid", "seeds", "keys", "line"),
    [
        ({"lr": []}, 1, {}, "lr: expected values to go through, got none"),
        ({"lr": [0.1]}, 1, {"lr": 0.2}, "lr: is in the grid, too"),
        ({"seed": [1]}, 1, {}, r"seed: expected seeds=\[...\]"),
        ([["seed=1"]], 1, {}, r"seed: expected seeds=\[...\]"),
        ({}, 1, {"seed": 4}, r"seed: expected seeds=\[4\]"),
        ([], 1, {}, "grid: expected at least one run, got none"),
        ("algo=flex", 1, {}, "grid: expected values by key, or a list of words for each run, got 'algo=flex'"),
        ([[3]], 1, {}, r"grid: expected a list of words for each run, such as .*, got \[3\]"),
        ({}, 0, {}, "seeds: expected how many, or a list of whole numbers, got 0"),
        ({}, True, {}, "seeds: expected how many, or a list of whole numbers, got True"),
        ({}, [1.5], {}, r"seeds: expected how many, or a list of whole numbers, got \[1.5\]"),
    ],
)
def test_a_mistake_is_one_line(grid: Any, seeds: Any, keys: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{line}$"):
        entries(grid, seeds, keys)
