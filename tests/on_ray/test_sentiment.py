"""The stand-in of MOSEI, with a BERT in one actor and LSTMs in others: the same numbers as in one process."""

from __future__ import annotations

import pytest

from conftest import Compose, Run

from .conftest import RunOnRay, digests

pytestmark = pytest.mark.ray

ALGORITHMS = ("adaptive", "vafl")
SMALL = (
    "dataset=mosei", "dataset.standin={train:60,val:0,test:20,steps:10,video:6,audio:5}", "dataset.batch_size=20",
    "rounds=4", "dtype=float32",
)  # fmt: skip


def test_digests_and_records_equal_those_of_one_process(
    compose_job: Compose, run_inline: Run, on_ray: RunOnRay
) -> None:
    for algo in ALGORITHMS:
        expected = run_inline(compose_job(f"algo={algo}", "cluster=inline", *SMALL))
        records = on_ray(compose_job(f"algo={algo}", "cluster=local", *SMALL))
        assert digests(records) == digests(expected), algo
        assert records[:-1] == expected[:-1], algo
