"""A frozen participant stays as it was, statistics included; decay schedules are per participant; limits are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import nn

from flexray.core.messages import RoundRecord
from helpers.jobs import Compose, Run
from helpers.small import ended


class Normed(nn.Sequential):
    """A model with running statistics."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(nn.Linear(in_features, 8), nn.BatchNorm1d(8), nn.Linear(8, out_features))


SMALL = ("dataset.batch_size=128", "dtype=float64", "model.hidden=[8]")
NORMED = {"model": {"_target_": f"{__name__}.Normed"}}


def rounds(records: list[Any]) -> list[RoundRecord]:
    return [record for record in records if isinstance(record, RoundRecord)]


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_a_frozen_party_keeps_its_running_statistics(algo: str, compose_job: Compose, run_inline: Run) -> None:
    parties = {"lower_left": NORMED, "lower_right": NORMED}
    job = compose_job(f"algo={algo}", *SMALL, "rounds=6", parties=parties, frozen=["lower_left"])
    states = ended(run_inline(job)).states
    assert states["lower_left"]["1.num_batches_tracked"] == 0
    assert np.array_equal(states["lower_left"]["1.running_mean"], np.zeros(8))
    assert states["lower_right"]["1.num_batches_tracked"] > 0


def test_each_party_may_have_its_own_decay(compose_job: Compose, run_inline: Run) -> None:
    own = {"upper_left": {"lr_decay": {"milestones": [40, 60], "factor": 0.5}}}
    job = compose_job(*SMALL, "rounds=4", "lr=0.1", "lr_decay.milestones=[50]", parties=own)
    found = [record.lr[:2] for record in rounds(run_inline(job))]
    np.testing.assert_allclose(found, [(0.1, 0.1), (0.1, 0.1), (0.05, 0.1), (0.025, 0.01)])


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("timeout=20", "network.t_comm=0.1", "max_time=60.3"), 3),
        (("timeout=20", "network.t_comm=0.1", "max_time=60.2"), 2),
        (("algo=vafl", "algo.server=free", "speeds.unit_time=1.1", "network.t_comm=0.1", "max_time=3.6"), 12),
        (("algo=vafl", "speeds.unit_time=1.1", "network.t_comm=0.1", "max_time=3.4"), 2),
    ],
)
def test_the_last_round_may_end_at_the_limit(
    overrides: tuple[str, ...], expected: int, compose_job: Compose, run_inline: Run
) -> None:
    job = compose_job("speeds=uniform", *SMALL, *overrides, rounds=None, epochs=None)
    assert ended(run_inline(job)).rounds == expected
