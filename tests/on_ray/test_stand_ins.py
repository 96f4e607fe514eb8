"""The stand-ins of the paper's workloads, of small sizes: the same numbers as in one process, for every algorithm."""

from __future__ import annotations

import pytest

from helpers.jobs import Compose, Run
from helpers.ray_runs import RunOnRay, digests

pytestmark = pytest.mark.ray

SENTIMENT = ("dataset.standin={train:60,val:0,test:20,steps:10,video:6,audio:5}", "dataset.batch_size=20")
PICTURES = ("dataset.synthetic_train=24", "dataset.synthetic_test=12", "dataset.batch_size=8", "dataset.num_classes=6")
PACKED = ("cluster.parties_per_actor=2",)
CASES = {
    "mosei": (("adaptive", "vafl"), SENTIMENT),  # a BERT in one actor and LSTMs in others
    "mosi": (("flex", "sync_max"), SENTIMENT),
    "imagenet100": (("pbcd", "vafl"), (*PICTURES, *PACKED, "dataset.size=16")),
    "modelnet40": (("sync_min", "adaptive"), (*PICTURES, *PACKED, "dataset.size=8", "dataset.views=3")),
}


@pytest.mark.parametrize("dataset", CASES)
def test_digests_and_records_equal_those_of_one_process(
    dataset: str, compose_job: Compose, run_inline: Run, on_ray: RunOnRay
) -> None:
    algorithms, sizes = CASES[dataset]
    for algo in algorithms:
        words = (f"dataset={dataset}", f"algo={algo}", *sizes, "rounds=4", "dtype=float32")
        expected = run_inline(compose_job(*words, "cluster=inline"))
        records = on_ray(compose_job(*words, "cluster=local"))
        assert digests(records) == digests(expected), algo
        assert records[:-1] == expected[:-1], algo
