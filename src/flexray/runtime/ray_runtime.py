"""Participants as Ray actors: the only module that imports Ray.

A run's driver is an actor, too. It streams records back to the process that the user started, which writes the run
folder; so the folder comes home from wherever the driver lived.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from flexray.cluster import ClusterPlan, HostSpec
from flexray.driver import make_driver
from flexray.errors import FlexrayError, ParticipantError, ResourceError
from flexray.experiment import Experiment
from flexray.messages import Record
from flexray.runtime.base import Handle, Host, Placement, Request, Runtime
from flexray.runtime.resources import MachineLock, check_reachable, check_total, demands, shortage, sum_of

RESERVE_TIMEOUT_S = 8.0
BATCH_S = 0.1
"""Records that arise within this time travel together."""

LOCAL_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # the run is what the user waits for
    "RAY_event_stats": "0",  # bookkeeping about every call, that nobody reads here
}

QUIET = ("ray._private.authentication.authentication_token_setup",)
"""Loggers that only say that the default is in force: token authentication stays on."""

log = logging.getLogger("flexray")


class HostActor(Host):
    """A host with a name, by which Ray prefixes what it prints."""

    def __init__(self, name: str, threads: int) -> None:
        import torch

        super().__init__()
        self._name = name
        torch.set_num_threads(threads)

    def __repr__(self) -> str:
        return self._name

    def create(self, worker: str, factory: Callable[..., Any], *args: Any) -> None:
        """Build a worker; what was imported for it need not be looked at by the garbage collector again."""
        super().create(worker, factory, *args)
        gc.collect()
        gc.freeze()

    def call(self, request: Request, *results: Any) -> bytes:
        """Call a method; what it returns travels as bytes, for whose serialization Ray charges least."""
        return pickle.dumps(super().call(request, *map(unpack, results)), protocol=5)

    def clear(self) -> None:
        """Drop all workers; the process stays warm."""
        super().clear()
        gc.unfreeze()


class RayRuntime(Runtime):
    """Hosts are Ray actors; a handle is an object reference."""

    def __init__(self, actors: Sequence[Any]) -> None:
        self._actors = list(actors)
        self._calls = [actor.call.remote for actor in actors]

    def create(self, host: int, worker: str, factory: Callable[..., Any], *args: Any) -> Handle:  # noqa: D102
        return self._actors[host].create.remote(worker, factory, *args)

    def call(self, host: int, request: Request, *handles: Handle) -> Handle:  # noqa: D102
        return self._calls[host](request, *handles)

    def get(self, handles: Sequence[Handle]) -> list[Any]:  # noqa: D102
        try:
            return [unpack(result) for result in ray.get(list(handles))]
        except RayError as error:
            raise unwrap(error) from None

    def first(self, handles: Sequence[Handle], timeout_s: float | None) -> int | None:  # noqa: D102
        ready, _ = ray.wait(list(handles), num_returns=1, timeout=timeout_s)
        return list(handles).index(ready[0]) if ready else None


class DriverActor:
    """Runs drivers, one after another, and streams their records."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def run(self, experiment: Experiment, placement: Placement, actors: Sequence[Any]) -> Iterator[list[Record]]:
        """Run an experiment and yield its records in small batches."""
        batch: list[Record] = []
        sent_s = time.monotonic()
        for record in make_driver(experiment, RayRuntime(actors), placement).run():
            batch.append(record)
            if time.monotonic() - sent_s > BATCH_S:
                yield batch
                batch, sent_s = [], time.monotonic()
        yield batch


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

    def run(self, plan: ClusterPlan, experiment: Experiment) -> Iterator[Record]:
        """Run an experiment on the cluster and yield its records.

        Raises:
            flexray.errors.ResourceError: The plan asks for more than there is.
            flexray.errors.ParticipantError: Code of a participant raised, or its process died.
        """
        self._connect(plan)
        self._ensure_hosts(plan)
        try:
            batches = self._driver.run.remote(experiment, plan.placement, self._actors)
            for reference in batches:
                yield from ray.get(reference)
            ray.get([actor.clear.remote() for actor in self._actors])
        except RayError as error:
            self._drop_hosts()
            raise unwrap(error) from None
        except BaseException:
            self._drop_hosts()
            raise

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
        self._driver = driver_class.options(**driver).remote(plan.driver.name)
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


def unpack(result: Any) -> Any:
    """Return what :meth:`HostActor.call` packed, anything else as it is."""
    return pickle.loads(result) if isinstance(result, bytes) else result  # noqa: S301 - from our own process


def worker_path() -> str:
    """Return a PYTHONPATH with which workers find what this process finds, besides what is installed."""
    package_home = str(Path(__file__).resolve().parents[2])
    installed = (sys.prefix, sys.base_prefix)
    own = [os.path.abspath(path) for path in sys.path if not path.startswith(installed)]
    return os.pathsep.join(dict.fromkeys(path for path in (package_home, *own) if os.path.isdir(path)))


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set environment variables for the processes that are started inside the block; the user's ``RAY_`` ones win."""
    variables = {k: v for k, v in variables.items() if not (k.startswith("RAY_") and k in os.environ)}
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def unwrap(error: RayError) -> FlexrayError:
    """Return the flexray error inside a Ray error, or one that says whose process died."""
    cause: BaseException | None = error
    while isinstance(cause, RayTaskError):
        cause = cause.cause
    if isinstance(cause, FlexrayError):
        return cause
    if isinstance(cause, ActorDiedError | RayActorError):
        reason = " ".join(str(cause).split())
        name = re.search(r"\bname: (\S+)", reason)
        return ParticipantError(name[1] if name else "a host", "its process", f"died: {reason[:300]}")
    return ParticipantError("a host", "a call", f"{type(cause).__name__}: {cause}", str(error))
