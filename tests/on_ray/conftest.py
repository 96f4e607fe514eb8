"""Real Ray processes, started once for the tests of this folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from flexray.engine.hosts.ray import RayCluster
from helpers.ray_runs import RunOnRay


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
