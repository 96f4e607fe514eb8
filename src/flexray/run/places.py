"""Where jobs run: in this process, or on a Ray that serves one job after another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from flexray.engine.driver.seam import unwatched
from flexray.engine.hosts.loopback import stay_on_loopback
from flexray.engine.hosts.resources import running_ray

if TYPE_CHECKING:  # torch and Ray are imported when a job needs them
    from rich.progress import Progress

    from flexray.config.job import Job
    from flexray.engine.hosts.ray.jobs import RayPool
    from flexray.run.execution import Place
    from flexray.run.watch.base import Observer


def open_pool(key: str, address: str, cpus: float = 1.0, gpus: float = 0.0, num_cpus: int | None = None) -> RayPool:
    """Return processes for many jobs at once, on a Ray that is joined, or else started here.

    Args:
        key: What gave the address.
        address: ``auto``, ``local`` or ``HOST:PORT``.
        cpus: CPUs of each process.
        gpus: GPUs of each, or a share of one.
        num_cpus: CPUs that a Ray of this machine is started with; None: all that it has.
    """
    running = running_ray(key, address)
    if running is None:
        stay_on_loopback()
    from flexray.engine.hosts.ray.jobs import RayPool

    return RayPool(running, cpus, gpus, num_cpus)


class Places:
    """This process, and a Ray that is started or joined by the first job that asks for it."""

    def __init__(self) -> None:
        self._cluster: Any = None

    def place_of(self, job: Job, quiet: bool = False, bars: Progress | None = None) -> Place:
        """Return the place of a job's processes.

        Args:
            job: The job.
            quiet: Do not show how many of its processes have started.
            bars: The bars of a sweep, to which that is added.
        """
        if job.cluster.kind == "inline":
            from flexray.engine.hosts.inline import InlinePlace

            return InlinePlace()
        if self._cluster is None:
            if job.cluster.kind != "ray":
                stay_on_loopback()
            from flexray.engine.hosts.ray import RayCluster

            self._cluster = RayCluster()

        def watch_setup(total: int) -> AbstractContextManager[Callable[[int], None]]:
            from flexray.run.watch.terminal import setup_progress

            return setup_progress(total, shared=bars)

        self._cluster.watch_setup = watch_setup if job.progress and not quiet else unwatched
        place: Place = self._cluster
        return place

    def metrics_of(self, job: Job) -> list[Observer]:
        """Return what feeds the metrics that Ray exports, if the job runs there."""
        from flexray.run.watch.chosen import run_name
        from flexray.run.watch.tracking import ClusterMetrics

        inline = job.cluster.kind == "inline"
        return [] if inline else [ClusterMetrics(self._cluster.instruments, run_name(job))]

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
