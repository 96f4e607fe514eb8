"""A function on the CPUs of a cluster's nodes, a Ray task for each of many calls."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Self, TypeVar

import ray
from ray.exceptions import RayError, TaskCancelledError
from typing_extensions import override

from flexray.core.errors import ConfigError, LostProcessError, ResourceError
from flexray.core.files import said
from flexray.engine.hosts.fit import describe_nodes, described, holds
from flexray.engine.hosts.jobs import Pool
from flexray.engine.hosts.ray.actors import unwrap
from flexray.engine.hosts.ray.connection import Connection
from flexray.engine.hosts.ray.environment import own_modules
from flexray.engine.hosts.ray.nodes import cluster_nodes

NODE = re.compile(r"[Nn]ode IP: ([\w.:]+)")
"""How Ray names the node that it lost."""

T = TypeVar("T")
R = TypeVar("R")


class RayPool(Pool):
    """Processes on a Ray that is joined or started for the ``with`` block, one for each call that runs.

    The user's Python files go along to nodes that are joined
    (:func:`flexray.engine.hosts.ray.environment.own_modules`).

    Args:
        address: ``HOST:PORT`` of a running cluster; None: start Ray on this machine.
        cpus: CPUs of each process, of those of the nodes.
        gpus: GPUs of each process, or a share of one.
        num_cpus: CPUs that a Ray of this machine is started with; None: all that it has.
    """

    def __init__(self, address: str | None, cpus: float = 1.0, gpus: float = 0.0, num_cpus: int | None = None) -> None:
        self._address, self._num_cpus = address, num_cpus or os.cpu_count() or 1
        self._wanted = {"CPU": cpus, "GPU": gpus}
        self._connection = Connection(log_to_driver=False)

    def __enter__(self) -> Self:
        if self._address is None:
            self._connection.start(self._num_cpus)
        else:
            self._connection.join(self._address, **own_modules())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    @override
    def submit(self, work: Callable[[T], R], item: T) -> Any:
        options = {"num_cpus": self._wanted["CPU"], "num_gpus": self._wanted["GPU"], "max_retries": 0}
        try:
            return ray.remote(**options)(work).remote(item)
        except TypeError as error:  # of Ray, for what cannot be pickled
            raise ConfigError(f"a job cannot be sent to another process: {said(error.__cause__ or error)}") from error

    @override
    def ready(self, calls: Sequence[Any], timeout_s: float) -> list[Any]:
        if not ray.wait(list(calls), timeout=timeout_s)[0]:
            return []
        ended: list[Any] = ray.wait(list(calls), num_returns=len(calls), timeout=0)[0]
        return ended

    @override
    def result(self, call: Any) -> Any:
        try:
            return ray.get(call)
        except TaskCancelledError:
            raise CancelledError from None
        except RayError as error:
            failure = unwrap(error, "a job")
            if isinstance(failure, LostProcessError):
                node = NODE.search(failure.trace)
                cause = f"node {node[1]} is gone" if node else failure.cause.partition(". ")[0]
                failure = LostProcessError("a job", "its process", cause, failure.trace)
            raise failure from None

    @override
    def cancel(self, call: Any) -> None:
        ray.cancel(call)

    @override
    def check(self) -> None:
        nodes = cluster_nodes()
        wanted = {key: amount for key, amount in self._wanted.items() if amount}
        if not any(holds(node.total, wanted) for node in nodes):
            there = describe_nodes(nodes, wanted, {})
            raise ResourceError(f"sweep: each job asks for {described(wanted, {})} of one node, but {there}")
