"""Participants as Ray actors, on a Ray that this process started or joined.

A run's driver is an actor, too. It streams records back to the process that the user started, which writes the run
folder; so the folder comes home from wherever the driver lived.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from flexray.cluster import ClusterPlan, HostSpec
from flexray.driver.saving import Saves, detached
from flexray.errors import LostProcessError, ResourceError
from flexray.experiment import Experiment
from flexray.messages import Record, Snapshot
from flexray.runtime.environment import environment, worker_path
from flexray.runtime.ray_actors import DriverActor, HostActor, unwrap
from flexray.runtime.resources import MachineLock, check_reachable, check_total, demands, shortage, sum_of

RESERVE_TIMEOUT_S = 8.0
LOCAL_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # the run is what the user waits for
    "RAY_event_stats": "0",  # bookkeeping about every call, that nobody reads here
}

QUIET = ("ray._private.authentication.authentication_token_setup",)
"""Loggers that only say that the default is in force: token authentication stays on."""

log = logging.getLogger("flexray")


class RayCluster:
    """A Ray instance that this process started or joined, and the warm hosts of its last run.

    In a multirun one cluster serves all jobs; a job that asks for the same hosts as the one before gets them warm.
    """

    def __init__(self) -> None:
        self._plan: tuple[Any, ...] | None = None
        self._hosts_key: tuple[Any, ...] | None = None
        self._group: PlacementGroup | None = None
        self._actors: list[Any] = []
        self._driver: Any = None
        self._machine = MachineLock()

    def run(
        self,
        plan: ClusterPlan,
        experiment: Experiment,
        saves: Saves | None = None,
        since: Snapshot | None = None,
        stall_timeout_s: float | None = None,
    ) -> Iterator[Record]:
        """Run an experiment on the cluster and yield its records.

        Args:
            plan: Who lives where.
            experiment: What to run.
            saves: When to yield snapshots.
            since: Go on from there.
            stall_timeout_s: Seconds without a record that count as a failure.

        Raises:
            flexray.errors.ResourceError: The plan asks for more than there is.
            flexray.errors.ParticipantError: Code of a participant raised.
            flexray.errors.LostProcessError: A process died, or nothing happened for too long.
        """
        self._connect(plan)
        self._ensure_hosts(plan)
        try:
            batches = self._driver.run.remote(experiment, plan.placement, self._actors, saves, since)
            for batch in self._arrivals(batches, stall_timeout_s):
                for record in batch:
                    yield detached(record) if isinstance(record, Snapshot) else record
            ray.get([actor.clear.remote() for actor in self._actors], timeout=stall_timeout_s)
        except RayError as error:
            self._drop_hosts()
            raise unwrap(error) from None
        except BaseException:
            self._drop_hosts()
            raise

    @staticmethod
    def _arrivals(batches: Any, stall_timeout_s: float | None) -> Iterator[list[Record]]:
        """Yield the driver's batches of records; after too long a silence, give it up."""
        while True:
            if not ray.wait([batches], timeout=stall_timeout_s)[0]:
                raise LostProcessError("the run", "its processes", f"nothing happened for {stall_timeout_s:g} s")
            try:
                reference = next(batches)
            except StopIteration:
                return
            yield ray.get(reference)

    def stop(self) -> None:
        """End the run after its current round; may be called from another thread."""
        driver = self._driver
        if driver is not None:
            driver.stop.remote()

    def close(self) -> None:
        """Leave the cluster; one that this process started ends."""
        self._drop_hosts()
        if self._plan is not None:
            ray.shutdown()
            self._plan = None
        self._machine.release()

    def _connect(self, plan: ClusterPlan) -> None:
        wanted = (plan.kind == "ray", plan.address, plan.num_cpus)
        if self._plan == wanted:
            return
        self.close()
        for name in QUIET:
            logging.getLogger(name).setLevel(logging.ERROR)
        cpus = plan.num_cpus or os.cpu_count() or 1
        if plan.kind == "ray":
            check_reachable(os.environ.get("RAY_ADDRESS", "auto") if plan.address == "auto" else plan.address)
        else:
            check_total((plan.driver, *plan.hosts), {"CPU": float(cpus)}, only=("CPU",))
            self._machine.announce()
            log.info("starting Ray on %d CPUs", cpus)
        common = {"log_to_driver": True, "logging_level": logging.WARNING, "configure_logging": False}
        try:
            if plan.kind == "ray":
                runtime_env = {"env_vars": {"PYTHONPATH": worker_path()}}
                ray.init(address=plan.address, runtime_env=runtime_env, **common)
            else:
                with environment(PYTHONPATH=worker_path(), **LOCAL_RAY):
                    ray.init(address="local", num_cpus=cpus, include_dashboard=False, **common)
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ResourceError(f"cluster.address: cannot use Ray at '{plan.address}': {reason}") from error
        self._plan = wanted

    # Hosts ------------------------------------------------------------------------------------------------------

    def _ensure_hosts(self, plan: ClusterPlan) -> None:
        specs = (plan.driver, *plan.hosts)
        key = (specs, plan.threads)
        if self._hosts_key == key:
            return
        self._drop_hosts()
        bundles = self._reserve(specs)
        driver, *hosts = (self._options(i, spec, bundles[i]) for i, spec in enumerate(specs))
        host_class, driver_class = ray.remote(HostActor), ray.remote(DriverActor)
        self._driver = driver_class.options(max_concurrency=2, **driver).remote(plan.driver.name)
        self._actors = [
            host_class.options(**options).remote(spec.name, plan.threads)
            for options, spec in zip(hosts, plan.hosts, strict=True)
        ]
        self._hosts_key = key
        log.info("starting %d processes: %s", len(specs), ", ".join(spec.name for spec in specs[:8]))

    def _options(self, index: int, spec: HostSpec, bundle: dict[str, float]) -> dict[str, Any]:
        custom = {key: amount for key, amount in bundle.items() if key not in ("CPU", "GPU")}
        return {
            "name": spec.name,
            "num_cpus": bundle.get("CPU", 0.0),
            "num_gpus": bundle.get("GPU", 0.0),
            "resources": custom or None,
            "enable_task_events": False,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index),
        }

    def _reserve(self, specs: Sequence[HostSpec]) -> list[dict[str, float]]:
        """Reserve what all hosts ask for at once, or say what was asked and what there is."""
        total, free = ray.cluster_resources(), ray.available_resources()
        bundles = demands(specs, free.get("CPU", 0.0))
        check_total(specs, total)
        self._group = placement_group([bundle or {"CPU": 0.001} for bundle in bundles], strategy="PACK")
        if not self._group.wait(timeout_seconds=RESERVE_TIMEOUT_S):
            remove_placement_group(self._group)
            self._group = None
            raise ResourceError(shortage(specs, sum_of(bundles), free, "free on one node or another"))
        return [bundle or {"CPU": 0.001} for bundle in bundles]

    def _drop_hosts(self) -> None:
        for actor in [self._driver, *self._actors]:
            if actor is not None:
                ray.kill(actor)
        if self._group is not None:
            remove_placement_group(self._group)
        self._driver, self._actors, self._group, self._hosts_key = None, [], None, None
