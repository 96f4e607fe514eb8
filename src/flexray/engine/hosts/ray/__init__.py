"""Participants as Ray actors, on a Ray that this process started or joined.

A run's driver is an actor, too. It streams records back to the process that the user started, which writes the run
folder. This package is the only one that imports Ray.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.metrics import Counter, Gauge
from ray.util.placement_group import PlacementGroup, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from flexray.core.errors import LostProcessError
from flexray.core.memory import available_bytes
from flexray.core.messages import Record, Snapshot
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.seam import WatchSetup, unwatched
from flexray.engine.driver.snapshots import Saves, detached
from flexray.engine.hosts.plan import ClusterPlan, HostSpec
from flexray.engine.hosts.ray.actors import DriverActor, HostActor, came_back, unwrap
from flexray.engine.hosts.ray.connection import Connection
from flexray.engine.hosts.ray.nodes import alive_nodes, check_plan, reserve
from flexray.engine.hosts.resources import check_memory, check_total

SETUP_TIMEOUT_S = 300.0
"""Longest time until another process has started, then until the first record, for which data is read."""
SETUP_TICK_S = 0.5
"""How often to count the processes that have started."""
NODE_CHECK_S = 2.0
"""How often to see whether a node is gone while processes start again; Ray itself takes longer to notice."""
REPLY_TIMEOUT_S = 5.0
"""How soon an idle process answers; one that does not is replaced."""

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
        self._starting: list[Any] = []
        self._free_bytes = 0.0
        self.watch_setup: WatchSetup = unwatched
        self._bundles: list[dict[str, float]] = []
        self._nodes = frozenset[str]()
        self._connection = Connection()
        self._instruments: dict[str, Any] = {}

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
            plan: The hosts and their parties.
            experiment: What to run.
            saves: When to yield snapshots.
            since: Go on from there.
            stall_timeout_s: Seconds without a record that count as a failure.

        Raises:
            flexray.core.errors.ResourceError: The plan asks for more than there is.
            flexray.core.errors.ParticipantError: Code of a participant raised.
            flexray.core.errors.LostProcessError: A process died, or nothing happened for too long.
        """
        if plan.kind != "ray":
            if not self._connection.is_own:  # later, processes of this Ray count as well
                self._free_bytes = available_bytes()
            check_memory(plan, self._free_bytes)
        self.connect(plan)
        self._ensure_hosts(plan)
        try:
            batches = self._driver.run.remote(experiment, plan.placement, self._actors, saves, since)
            self._await_start(batches, stall_timeout_s)
            for batch in self._arrivals(batches, stall_timeout_s):
                for record in batch:
                    yield detached(record) if isinstance(record, Snapshot) else record
            ray.get([actor.clear.remote() for actor in self._actors], timeout=stall_timeout_s)
        except RayError as error:
            failure = unwrap(error)
            if isinstance(failure, LostProcessError):
                self._replace_lost(plan)
            else:
                self._drop_hosts()
            raise failure from None
        except BaseException:
            self._drop_hosts()
            raise

    def _await_start(self, batches: Any, stall_timeout_s: float | None) -> None:
        """Show how many of the new processes have started, until all have or the driver sends its first record."""
        total, last_s = len(self._starting), time.monotonic()
        if not total:
            return
        with self.watch_setup(total) as show:
            while self._starting and not ray.wait([batches], timeout=0)[0]:
                _, left = ray.wait(self._starting, num_returns=len(self._starting), timeout=SETUP_TICK_S)
                if len(left) < len(self._starting):
                    last_s = time.monotonic()
                elif stall_timeout_s is not None and time.monotonic() - last_s > max(stall_timeout_s, SETUP_TIMEOUT_S):
                    raise LostProcessError("the run", "its start", f"{len(left)} of {total} processes do not start")
                self._starting = left
                show(total - len(left))
        self._starting = []

    @staticmethod
    def _arrivals(batches: Any, stall_timeout_s: float | None) -> Iterator[list[Record]]:
        """Yield the driver's batches of records; fail after too long a silence."""
        patience_s = None if stall_timeout_s is None else max(stall_timeout_s, SETUP_TIMEOUT_S)
        while True:
            if not ray.wait([batches], timeout=patience_s)[0]:
                raise LostProcessError("the run", "its processes", f"nothing happened for {patience_s:g} s")
            patience_s = stall_timeout_s
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

    def instruments(self) -> dict[str, Any]:
        """Return what Ray exports at every node's Prometheus endpoint, as ``ray_flexray_...``."""
        if not self._instruments:
            by_party = ("run", "party")
            self._instruments = {
                "rounds": Gauge("flexray_rounds", "Rounds (VAFL: events) done", ("run",)),
                "tau": Gauge("flexray_tau", "Local iterations in the last round", by_party),
                "waiting_share": Gauge("flexray_waiting_share", "Part of the last round spent waiting", by_party),
                "sent_bytes": Counter("flexray_sent_bytes", "Bytes sent", (*by_party, "direction")),
            }
        return self._instruments

    def close(self) -> None:
        """Leave the cluster; one that this process started ends."""
        self._drop_hosts()
        self._connection.close()
        self._plan, self._instruments = None, {}

    def connect(self, plan: ClusterPlan) -> None:
        """Start or join the Ray that the plan names, and leave any other.

        Raises:
            flexray.core.errors.ResourceError: There is none, or the machine is too small.
        """
        wanted = (plan.kind == "ray", plan.address, plan.num_cpus)
        if self._plan == wanted:
            return
        self.close()
        if plan.kind == "ray":
            self._connection.join(plan.address)
        else:
            cpus = plan.num_cpus or os.cpu_count() or 1
            check_total((plan.driver, *plan.hosts), {"CPU": float(cpus)}, only=("CPU",))
            self._connection.start(cpus)
        self._plan = wanted

    # Hosts ------------------------------------------------------------------------------------------------------

    def _ensure_hosts(self, plan: ClusterPlan) -> None:
        specs = (plan.driver, *plan.hosts)
        key = (specs, plan.threads, plan.strategy)
        if self._hosts_key == key:
            return
        check_plan(plan)  # before: what is refused costs no warm processes
        self._drop_hosts()
        self._group, self._bundles = reserve(plan, specs)
        self._driver = self._start_driver(plan)
        self._actors = [self._start_host(plan, place) for place in range(len(plan.hosts))]
        self._starting = [actor.__ray_ready__.remote() for actor in (self._driver, *self._actors)]
        self._hosts_key = key
        self._nodes = alive_nodes()
        log.info("starting %d processes: %s", len(specs), ", ".join(spec.name for spec in specs[:8]))

    def _start_driver(self, plan: ClusterPlan) -> Any:
        options = self._options(0, plan.driver)
        return ray.remote(DriverActor).options(max_concurrency=2, **options).remote(plan.driver.name)

    def _start_host(self, plan: ClusterPlan, place: int) -> Any:
        spec = plan.hosts[place]
        return ray.remote(HostActor).options(**self._options(place + 1, spec)).remote(spec.name, plan.threads)

    def _replace_lost(self, plan: ClusterPlan) -> None:
        """Restart processes that died or do not answer; the others stay warm. If a node is gone, drop all."""
        if not self._answers([self._driver.stop.remote()])[0]:
            ray.kill(self._driver)
            self._driver = self._start_driver(plan)
        replaced = []
        for place, answers in enumerate(self._answers([actor.clear.remote() for actor in self._actors])):
            if not answers:
                ray.kill(self._actors[place])
                self._actors[place] = self._start_host(plan, place)
                replaced.append(self._actors[place].clear.remote())
        if not self._all_up(replaced):
            self._drop_hosts()

    def _all_up(self, started: list[Any]) -> bool:
        """Wait until new processes answer; give up when a node is gone, with the places that it had reserved."""
        deadline_s = time.monotonic() + SETUP_TIMEOUT_S
        while started and time.monotonic() < deadline_s:
            _, started = ray.wait(started, num_returns=len(started), timeout=NODE_CHECK_S)
            if alive_nodes() != self._nodes:
                return False
        return not started and alive_nodes() == self._nodes

    @staticmethod
    def _answers(calls: list[Any]) -> list[bool]:
        """Return for each call whether it came back in time and well."""
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=REPLY_TIMEOUT_S)
        return [call in ready and came_back(call) for call in calls]

    def _options(self, index: int, spec: HostSpec) -> dict[str, Any]:
        bundle = self._bundles[index]
        custom = {key: amount for key, amount in bundle.items() if key not in ("CPU", "GPU", "memory")}
        return {
            "name": spec.name,
            "num_cpus": bundle.get("CPU", 0.0),
            "num_gpus": bundle.get("GPU", 0.0),
            "memory": bundle.get("memory"),
            "resources": custom or None,
            "enable_task_events": False,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index),
        }

    def _drop_hosts(self) -> None:
        for actor in [self._driver, *self._actors]:
            if actor is not None:
                ray.kill(actor)
        if self._group is not None:
            remove_placement_group(self._group)
        self._driver, self._actors, self._group, self._hosts_key, self._starting = None, [], None, None, []
