"""The table of missing samples is one sweep: both algorithms, with what each needs, over all that is missing."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from flexray.models import MLP, Laser
from helpers.jobs import Compose

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))

import paper_runs

CHOSEN = "+experiment=missing_digits"
GONE = [{"upper_left": 1}, {"upper_left": 1, "upper_right": 1}]


def test_the_sweep_has_a_row_for_all_that_is_missing() -> None:
    cells = [["cluster=inline", CHOSEN, *axes] for axes in paper_runs._axes([CHOSEN], ["seed=0"])]
    assert len(cells) == 2 * 5
    rows = [paper_runs.compose(cell).missing for cell in cells[:5]]
    assert [row.fraction for row in rows] == [0, 0.2, 0.5, 0, 0]
    assert [row.test_fraction for row in rows] == [None, None, None, *GONE]


@pytest.mark.parametrize(("algo", "server", "lr"), [("laser", Laser, 0.2), ("split", MLP, 1.0)])
def test_each_algorithm_has_its_server_and_its_rate(algo: str, server: type, lr: float, compose_job: Compose) -> None:
    x = compose_job(CHOSEN, f"algo={algo}").experiment
    model = x.shared.server.model
    assert isinstance(model, partial)
    assert (model.func, model.keywords) == (server, {"hidden": []})
    assert set(x.algorithm.system.lr) == {lr}
    assert x.shared.labels_at == "server"
