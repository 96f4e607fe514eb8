"""Actors: their names, resources, threads; warm hosts; failures that leave nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import ray
import torch

from flexray.core.errors import ParticipantError, ResourceError
from flexray.engine.driver.seam import remote, unwatched
from flexray.engine.hosts.ray import RayCluster
from flexray.engine.hosts.ray.actors import RayRuntime
from helpers.jobs import Compose, Run
from helpers.ray_runs import RunOnRay, digests

pytestmark = pytest.mark.ray

FAST = ("rounds=3", "dataset.batch_size=256", "model.hidden=[8]")
SAME = ("cluster=local", "cluster.cpus_per_party={1:0.2,default:0.1}", "party_threads=2", *FAST)
"""Short runs on the same processes."""


def thread_policies() -> set[int]:
    """Return how the threads of this process are scheduled, Ray's own among them; nothing where there is no telling."""
    tasks = Path("/proc/self/task")
    return {os.sched_getscheduler(int(task.name)) for task in tasks.iterdir()} if tasks.is_dir() else set()


class Spy:
    """Tells about the process it lives in."""

    def look(self) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "threads": torch.get_num_threads(),
            "resources": ray.get_runtime_context().get_assigned_resources(),
            "name": ray.get_runtime_context().get_actor_name(),
            "policies": thread_policies(),
        }


class Fails:
    """Fails some time after it was asked to."""

    def fail(self, after_s: float) -> None:
        time.sleep(after_s)
        raise ParticipantError(f"after {after_s:g} s", "a call", "it broke")


def looks(cluster: RayCluster) -> list[dict[str, object]]:
    """Look into every host of the cluster's last run."""
    runtime, hosts = RayRuntime(cluster._actors), range(len(cluster._actors))
    runtime.get([runtime.create(host, Spy) for host in hosts])
    return runtime.get([remote(runtime, host, Spy).look() for host in hosts])


def test_hosts_have_readable_names_shares_and_threads(
    cluster: RayCluster, compose_job: Compose, on_ray: RunOnRay
) -> None:
    counts = []

    @contextmanager
    def watch(total: int) -> Iterator[Callable[[int], None]]:
        yield lambda started: counts.append((started, total))

    cluster.watch_setup = watch
    on_ray(compose_job(*SAME))
    cluster.watch_setup = unwatched
    assert counts == sorted(counts)
    assert {total for _, total in counts} == {6}
    assert counts[-1][0] > 3
    found = looks(cluster)
    assert [look["name"] for look in found] == [
        "flexray-digits-party-1-upper_left",
        "flexray-digits-party-2-upper_right",
        "flexray-digits-party-3-lower_left",
        "flexray-digits-party-4-lower_right",
        "flexray-digits-server",
    ]
    assert [look["threads"] for look in found] == [2] * 5
    assert [look["resources"]["CPU"] for look in found[:4]] == [0.2, 0.1, 0.1, 0.1]
    assert len({look["pid"] for look in found}) == 5
    if hasattr(os, "SCHED_BATCH"):
        assert all(look["policies"] == {os.SCHED_BATCH} for look in found)


def test_the_next_job_gets_the_same_processes(cluster: RayCluster, compose_job: Compose, on_ray: RunOnRay) -> None:
    on_ray(compose_job("algo=flex", *SAME))
    before = [look["pid"] for look in looks(cluster)]
    on_ray(compose_job("algo=vafl", "seed=3", *SAME))
    assert [look["pid"] for look in looks(cluster)] == before


def test_a_failing_party_is_named_and_the_next_run_works(
    compose_job: Compose, on_ray: RunOnRay, run_inline: Run, tmp_path: Path
) -> None:
    job = compose_job("++parties.3.model._target_=helpers.ray_models.FailsInRoundTwo", *SAME)
    with pytest.raises(ParticipantError, match="lower_left failed in round 2: TwoArguments: it broke") as failure:
        on_ray(job)
    assert "raise TwoArguments" in failure.value.trace
    assert not [a for a in ray.util.list_named_actors() if a.startswith("flexray-")]
    good = compose_job(*SAME)
    assert digests(on_ray(good)) == digests(run_inline(compose_job("cluster=inline", *FAST)))


def test_of_failures_at_once_the_first_participants_is_named_and_not_the_soonest(
    cluster: RayCluster, compose_job: Compose, on_ray: RunOnRay
) -> None:
    on_ray(compose_job(*SAME))
    runtime, hosts = RayRuntime(cluster._actors), range(3)
    runtime.get([runtime.create(host, Fails) for host in hosts])
    with pytest.raises(ParticipantError, match=r"after 0\.5 s failed"):
        runtime.get([remote(runtime, host, Fails).fail(0.5 - 0.25 * host) for host in hosts])


def test_too_many_cpus_fail_at_once_and_say_what_there_is_and_cost_no_process(
    cluster: RayCluster, compose_job: Compose, on_ray: RunOnRay
) -> None:
    on_ray(compose_job(*SAME))
    before = [look["pid"] for look in looks(cluster)]
    started_s = time.monotonic()
    with pytest.raises(ResourceError, match=r"4 party hosts ask for 400 CPU, but there are \d+ CPU"):
        on_ray(compose_job(*SAME, "cluster.cpus_per_party=100"))
    with pytest.raises(ResourceError, match=r"ask for 4 tape_robot, but there are 0 tape_robot"):
        on_ray(compose_job(*SAME, "cluster.resources={tape_robot:1}"))
    assert time.monotonic() - started_s < 10
    on_ray(compose_job(*SAME))
    assert [look["pid"] for look in looks(cluster)] == before


def test_a_killed_party_is_named_and_the_next_run_works(
    cluster: RayCluster, compose_job: Compose, on_ray: RunOnRay
) -> None:
    job = compose_job("++parties.2.model._target_=helpers.ray_models.Kills", *SAME)
    with pytest.raises(ParticipantError, match=r"flexray-digits-party-2-upper_right failed in its process: died"):
        on_ray(job)
    assert len(on_ray(compose_job(*SAME))) > 3


def test_read_only_messages_do_no_harm_to_a_model_that_edits_its_input(compose_job: Compose, on_ray: RunOnRay) -> None:
    plain = on_ray(compose_job(*SAME))
    edited = on_ray(compose_job("++parties.server.model._target_=helpers.ray_models.EditingServer", *SAME))
    assert np.isfinite(edited[-2].metrics["test_loss"])
    assert plain[-1].digests.keys() == edited[-1].digests.keys()
