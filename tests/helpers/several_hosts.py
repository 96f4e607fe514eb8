"""Hosts in one process that behave like processes of their own."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import torch

from flexray.config.job import Job
from flexray.core.messages import Record
from flexray.engine.driver.make import make_driver
from flexray.engine.driver.seam import Host, Runtime
from flexray.engine.hosts.inline import InProcess, borrowed_torch
from flexray.engine.hosts.plan import place
from helpers.small import ended


class Call:
    """A call that runs when its result, or that of a later call of its host, is asked for."""

    def __init__(self, host: int, method: str, args: tuple[Any, ...]) -> None:
        self.host, self.method, self.args = host, method, args


def sent(value: Any) -> Any:
    """Return the value as another process gets it from Ray: a copy, its arrays read-only."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(buffer) for buffer in buffers])


class SeveralHosts(Runtime):
    """Hosts that share nothing, and that start to work as late as they can, whatever order the driver calls in."""

    def __init__(self) -> None:
        self.hosts: dict[int, Host] = {}
        self._waiting: dict[int, list[Call]] = {}
        self._results: dict[Call, Any] = {}
        self._noise = itertools.count()

    def create(self, host: int, kind: type, *args: Any) -> Call:
        return self._submit(host, "create", kind, *args)

    def call(self, host: int, worker: str, method: str, *args: Any) -> Call:
        return self._submit(host, "call", worker, method, *args)

    def _submit(self, host: int, *args: Any) -> Call:
        call = Call(host, args[0], args[1:])
        self.hosts.setdefault(host, Host())
        self._waiting.setdefault(host, []).append(call)
        return call

    def get(self, promises: Any) -> list[Any]:
        return [self._result(promise) for promise in reversed(list(promises))][::-1]

    def _result(self, call: Call) -> Any:
        queue = self._waiting[call.host]
        while call not in self._results:
            first = queue[0]
            args = sent([self._result(arg) if isinstance(arg, Call) else arg for arg in first.args])
            assert queue.pop(0) is first
            torch.default_generator.manual_seed(next(self._noise))  # no host may rely on another's
            self._results[first] = sent(getattr(self.hosts[first.host], first.method)(*args))
        return sent(self._results[call])


def assert_same_on_hosts(job: Job, sizes: Sequence[int] = (1, 2, 3)) -> list[Record]:
    """Check that a job gives the numbers of one process when so many parties share a host; return its records."""
    parties = len(job.experiment.parties)
    with borrowed_torch():
        alone = list(make_driver(job.experiment, InProcess(), job.cluster.placement).run())
        for size in sizes:
            runtime = SeveralHosts()
            spread = list(make_driver(job.experiment, runtime, place(parties, size)).run())
            assert len(runtime.hosts) == -(-parties // size) + 1
            assert spread[:-1] == alone[:-1], size
            assert ended(spread).digests == ended(alone).digests, size
    return alone
