"""The same numbers, bit for bit, wherever the parties live."""

from __future__ import annotations

import numpy as np
import pytest

from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.ray import RayCluster
from flexray.engine.hosts.ray.actors import RayRuntime
from helpers.audit import Audited, assert_private
from helpers.jobs import SHAPES, Compose, Run, WriteBundle
from helpers.ray_runs import RunOnRay, digests
from helpers.small import NAMES

pytestmark = pytest.mark.ray

LESS = "less algo.pretrain_rounds=3 algo.component_rounds=2 algo.feature_rounds=3 algo.feature_penalty=0.2"
ALGORITHMS = (*NAMES, "vafl", "fedbcd", "efvfl", "fedonce algo.apart_rounds=5", LESS, "tdcd", "bsvfl network.t_comm=30")
SMALL = ("rounds=12", "dataset.batch_size=128", "eval_every=5", "timeout=4", "model.hidden=[16]", "model.dropout=0.1")
PLACES = {
    "local": ("cluster=local",),
    "packed_2": ("cluster=packed", "cluster.parties_per_actor=2"),
    "packed_3": ("cluster=packed", "cluster.parties_per_actor=3"),
}


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    """Return one placement after the other, each to all tests, which then use the same hosts."""
    return str(request.param)


def test_digests_and_records_equal_those_of_one_process(
    place: str, compose_job: Compose, run_inline: Run, on_ray: RunOnRay
) -> None:
    for algo in ALGORITHMS:
        expected = run_inline(compose_job(*f"algo={algo}".split(), "cluster=inline", *SMALL))
        job = compose_job(*f"algo={algo}".split(), *PLACES[place], *SMALL)
        records = on_ray(job)
        assert digests(records) == digests(expected), algo
        assert records[:-1] == expected[:-1], algo
        if place == "local":
            assert digests(on_ray(job)) == digests(expected), algo


def test_absent_parties_stand_in_alike(place: str, compose_job: Compose, run_inline: Run, on_ray: RunOnRay) -> None:
    for algo in ("flex", "adaptive", "pbcd"):
        words = (
            f"algo={algo}",
            *SMALL,
            "absence.probability={1:0.5,4:0.3}",
            "absence.above=0.35",
            "speeds=google_mean",
            f"labels_at={'server' if algo == 'adaptive' else 'all'}",
        )
        expected = run_inline(compose_job("cluster=inline", *words))
        records = on_ray(compose_job(*PLACES[place], *words))
        assert digests(records) == digests(expected), algo
        assert records[:-1] == expected[:-1], algo


def test_a_party_model_of_the_user_and_a_generic_server_run_on_ray(
    compose_job: Compose, run_inline: Run, on_ray: RunOnRay, write_bundle: WriteBundle
) -> None:
    overrides = (
        "dataset=bundle", f"dataset.path={write_bundle()}", "dataset.batch_size=8", "rounds=6", "dtype=float64",
        "server=mlp", "server.activation=tanh", "server.dropout=0.2", "++parties.b.model._target_=torch.nn.Linear",
        "++parties.c.optimizer._target_=flexray.optimizers.TorchOptimizer", "++parties.c.optimizer.name=Adam",
    )  # fmt: skip
    expected = run_inline(compose_job(*overrides, "cluster=inline"))
    job = compose_job(*overrides, "cluster=local")
    assert digests(on_ray(job)) == digests(expected)


class Watched(Audited, RayRuntime):
    """Actors, and all that goes between them."""


@pytest.mark.parametrize(("algo", "where"), [("flex", "b"), ("vafl", "b"), ("vafl", "+c")])
def test_labels_and_gradients_reach_nobody_else(
    algo: str,
    where: str,
    cluster: RayCluster,
    compose_job: Compose,
    run_inline: Run,
    on_ray: RunOnRay,
    write_bundle: WriteBundle,
) -> None:
    """The driver runs in this process here, so that every message between the actors can be read."""
    added = where.startswith("+")  # in the process of party c, which is there
    path = write_bundle({name: shape for name, shape in SHAPES.items() if not added or name != "c"}, classes=None)
    words = (
        f"algo={algo}", "dataset=bundle", f"dataset.path={path}", "dataset.loss=mse", "dataset.batch_size=8",
        f"labels_at={where}", "rounds=4",
    )  # fmt: skip
    expected = run_inline(compose_job(*words, "cluster=inline"))
    job = compose_job(*words, "cluster=local")
    assert digests(on_ray(job)) == digests(expected)
    runtime = Watched(cluster._actors)
    records = list(make_driver(job.experiment, runtime, job.cluster.placement).run())
    assert digests(records) == digests(expected)
    assert records[:-1] == expected[:-1]
    labels = np.concatenate([np.load(path / split / "labels.npy") for split in ("train", "test")])
    assert_private(runtime, job.cluster.placement, labels, {2} if added else frozenset())
