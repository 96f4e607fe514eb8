"""Real Ray processes, started once for the tests of this folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from flexray.engine.hosts.ray import RayCluster
from helpers.ray_nodes import Nodes, two_nodes
from helpers.ray_runs import RunOnRay

ORDER = ("test_real_seconds", "test_digests", "test_actors", "test_stand_ins", "test_lost_processes")
"""Tests of the shared cluster: those of the same processes side by side, those that kill some at the end."""

SHARED = pytest.StashKey[ExitStack]()
"""What ends the clusters of these tests."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SHARED] = ExitStack()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Also stop it where the session ended early."""
    config.stash[SHARED].close()


@contextmanager
def shared_cluster() -> Iterator[RayCluster]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Ray leaves log files open
        shared = RayCluster()
        try:
            yield shared
        finally:
            shared.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that start a Ray of their own after those of the shared cluster."""

    def place(item: pytest.Item) -> int:
        if item.path.parent != Path(__file__).parent:
            return -1
        return ORDER.index(item.path.stem) if item.path.stem in ORDER else len(ORDER)

    items.sort(key=place)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop what the tests here share after the last of them; others may follow in this process."""
    if nextitem is None or nextitem.get_closest_marker("ray") is None:
        item.config.stash[SHARED].close()


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> RayCluster:
    """Return one local cluster for all jobs of the session, as a sweep has."""
    return pytestconfig.stash[SHARED].enter_context(shared_cluster())


@pytest.fixture
def on_ray(cluster: RayCluster) -> RunOnRay:
    """Return a function that runs a job on the shared cluster and returns its records."""
    return lambda job: list(cluster.run(job.cluster, job.experiment))


@pytest.fixture(scope="session")
def nodes(pytestconfig: pytest.Config) -> Nodes:
    """Return one cluster of two nodes for the tests that need several."""
    return pytestconfig.stash[SHARED].enter_context(two_nodes())
