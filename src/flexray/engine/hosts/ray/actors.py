"""The actors, and calls between them."""

from __future__ import annotations

import gc
import pickle
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import (
    GetTimeoutError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)
from typing_extensions import override

from flexray.core.collector import rarer_collections
from flexray.core.errors import FlexrayError, LostProcessError, ParticipantError
from flexray.core.messages import Record, Snapshot, Started
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.make import Driver, make_driver
from flexray.engine.driver.seam import Host, Placement, Runtime, T
from flexray.engine.driver.snapshots import Saves

BATCH_S = 0.1
"""Records that arise within this time travel together."""

LOST = (RayActorError, NodeDiedError, ObjectLostError, OutOfMemoryError, WorkerCrashedError, GetTimeoutError)
"""What Ray raises when a process or a node is gone, or a call does not end."""


class HostActor(Host):
    """A host with a name, by which Ray prefixes what it prints."""

    def __init__(self, name: str, threads: int) -> None:
        import torch

        super().__init__()
        self._name = name
        torch.set_num_threads(threads)

    def __repr__(self) -> str:
        return self._name

    def create(self, kind: type, *args: Any) -> None:
        """Build a participant; what was imported for it need not be looked at by the garbage collector again."""
        super().create(kind, *args)
        gc.collect()
        gc.freeze()

    def call(self, request: bytes, *results: Any) -> bytes:  # type: ignore[override]
        """Call a method; request and result travel as bytes, which Ray serializes fastest."""
        return pickle.dumps(super().call(*unpack(request), *map(unpack, results)), protocol=5)

    def clear(self) -> None:
        """Drop all participants; the process stays warm."""
        super().clear()
        gc.unfreeze()


class RayRuntime(Runtime):
    """Hosts are Ray actors; a promise is an object reference."""

    def __init__(self, actors: Sequence[Any]) -> None:
        self._actors = list(actors)
        self._calls = [actor.call.remote for actor in actors]

    @override
    def create(self, host: int, kind: type, *args: Any) -> Any:
        return self._actors[host].create.remote(kind, *args)

    @override
    def call(self, host: int, worker: str, method: str, *args: Any) -> Any:
        plain = next((place for place, arg in enumerate(args) if isinstance(arg, ray.ObjectRef)), len(args))
        request = pickle.dumps((worker, method, *args[:plain]), protocol=5)  # one object, since each costs
        return self._calls[host](request, *args[plain:])

    @override
    def get(self, promises: Sequence[T]) -> list[T]:
        try:
            return [unpack(result) for result in ray.get(list(promises))]
        except RayTaskError:  # of the call that failed soonest; which one that is depends on the machine
            raise unwrap(_first_failure(promises)) from None
        except RayError as error:
            raise unwrap(error) from None

    @override
    def first(self, promises: Sequence[Any], timeout_s: float | None) -> int | None:
        ready, _ = ray.wait(list(promises), num_returns=1, timeout=timeout_s)
        return list(promises).index(ready[0]) if ready else None


def _first_failure(promises: Sequence[Any]) -> RayError:
    """Return the failure of the first call, in the order of the promises, that failed."""
    for promise in promises:
        try:
            ray.get(promise)
        except RayError as error:
            return error
    raise AssertionError("no call failed")


class DriverActor:
    """Runs drivers, one after another, and streams their records."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._driver: Driver | None = None

    def __repr__(self) -> str:
        return self._name

    def stop(self) -> None:
        """End the run after its current round."""
        if self._driver is not None:
            self._driver.stop()

    def run(
        self,
        experiment: Experiment,
        placement: Placement,
        actors: Sequence[Any],
        saves: Saves | None,
        since: Snapshot | None,
    ) -> Iterator[list[Record]]:
        """Run an experiment and yield its records in small batches."""
        batch: list[Record] = []
        sent_s = time.monotonic()
        self._driver = make_driver(experiment, RayRuntime(actors), placement)
        with rarer_collections(len(experiment.names)):
            for record in self._driver.run(saves, since):
                batch.append(record)
                if time.monotonic() - sent_s > BATCH_S or isinstance(record, Started):
                    yield batch
                    batch, sent_s = [], time.monotonic()
        yield batch


def unpack(result: Any) -> Any:
    """Return what :meth:`HostActor.call` packed, anything else as it is."""
    return pickle.loads(result) if isinstance(result, bytes) else result  # noqa: S301 - from our own process


def came_back(call: Any) -> bool:
    """Whether a call that ended did not fail."""
    try:
        ray.get(call)
    except RayError:
        return False
    return True


def unwrap(error: RayError, what: str = "a host") -> FlexrayError:
    """Return the flexray error inside a Ray error, or one that names the process that died, ``what`` if need be."""
    cause: BaseException | None = error
    while isinstance(cause, RayTaskError):
        cause = cause.cause
    if isinstance(cause, FlexrayError):
        return cause
    if isinstance(cause, LOST):
        reason = " ".join(str(cause).split())
        name = re.search(r"\bname: (\S+)", reason)
        why = re.search(r"The actor is dead because ([^.]*)", reason)
        return LostProcessError(
            name[1] if name else what, "its process", f"died: {why[1] if why else reason[:300]}", reason
        )
    return ParticipantError(what, "a call", f"{type(cause).__name__}: {cause}", str(error))
