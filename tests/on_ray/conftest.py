"""Real Ray processes, started once for the tests of this folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from flexray.engine.hosts.ray import RayCluster
from helpers.ray_nodes import Nodes, two_nodes
from helpers.ray_runs import RunOnRay

ORDER = ("test_real_seconds", "test_actors", "test_digests", "test_stand_ins", "test_lost_processes")
"""Tests of the shared cluster: those of the same processes side by side, those that kill some at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that start a Ray of their own after those of the shared cluster."""

    def place(item: pytest.Item) -> int:
        if item.path.parent != Path(__file__).parent:
            return -1
        return ORDER.index(item.path.stem) if item.path.stem in ORDER else len(ORDER)

    items.sort(key=place)


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """Return one local cluster for all jobs of the session, as a sweep has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Ray leaves log files open
        shared = RayCluster()
        yield shared
        shared.close()


@pytest.fixture
def on_ray(cluster: RayCluster) -> RunOnRay:
    """Return a function that runs a job on the shared cluster and returns its records."""
    return lambda job: list(cluster.run(job.cluster, job.experiment))


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """Return one cluster of two nodes for the tests that need several."""
    with two_nodes() as cluster:
        yield cluster
