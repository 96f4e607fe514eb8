"""All participants in this process, no Ray: the quickest place for small models, and the easiest to debug."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from typing_extensions import override

from flexray.core.collector import rarer_collections
from flexray.core.messages import Record, Snapshot, Started
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.make import Driver, make_driver
from flexray.engine.driver.seam import Host, Runtime, T
from flexray.engine.driver.snapshots import Saves
from flexray.engine.hosts.plan import ClusterPlan
from flexray.engine.parties.devices import borrowed_flags


class InProcess(Runtime):
    """Hosts of this process; a call runs at once and its promise is its value.

    Args:
        carry: Makes of an object what comes to another host; by default hosts share all objects.
    """

    def __init__(self, carry: Callable[[Any], Any] = lambda thing: thing) -> None:
        self._hosts = defaultdict[int, Host](Host)
        self._carry = carry

    @override
    def create(self, host: int, kind: type, *args: Any) -> Any:
        return self._hosts[host].create(kind, *self._carry(args))

    @override
    def call(self, host: int, worker: str, method: str, *args: Any) -> Any:
        return self._carry(self._hosts[host].call(worker, method, *self._carry(args)))

    @override
    def get(self, promises: Sequence[T]) -> list[T]:
        return list(promises)


class InlinePlace:
    """Runs whole experiments in this process."""

    def __init__(self) -> None:
        self._driver: Driver | None = None

    def run(
        self,
        plan: ClusterPlan,
        experiment: Experiment,
        saves: Saves | None = None,
        since: Snapshot | None = None,
        stall_timeout_s: float | None = None,
    ) -> Iterator[Record]:
        """Run an experiment and yield its records; nobody could notice here that it hangs."""
        self._driver = make_driver(experiment, InProcess(), plan.placement)
        freezes = gc.get_freeze_count() == 0  # else the caller has frozen what it has
        with borrowed_torch(), rarer_collections(len(experiment.names)):
            try:
                for record in self._driver.run(saves, since):
                    if isinstance(record, Started) and freezes:
                        gc.freeze()  # what was made by now stays to the end; the collector need not look
                    yield record
            finally:
                if freezes:
                    gc.unfreeze()

    def stop(self) -> None:
        """End the run after its current round."""
        if self._driver is not None:
            self._driver.stop()


@contextmanager
def borrowed_torch() -> Iterator[None]:
    """Give torch's random state, flags and thread count back to the caller as they were."""
    threads = torch.get_num_threads()
    try:
        cards = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
        with torch.random.fork_rng(cards), borrowed_flags():
            yield
    finally:
        torch.set_num_threads(threads)
