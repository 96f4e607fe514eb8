"""Every message between the processes of a run, and what may be in it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Set
from typing import Any

import numpy as np

from flexray.core.messages import Answer, GroupReply
from flexray.engine.driver.seam import Placement, Runtime


class Audited(Runtime):
    """A runtime, mixed in before another, that keeps everything that it sends."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sent: list[tuple[int, str, tuple[Any, ...]]] = []
        self.answers: list[tuple[tuple[int, ...], Any]] = []
        """Promises of gradients, with the parties that they are for."""
        self._promises: dict[int, Any] = {}

    def create(self, host: int, kind: type, *args: Any) -> Any:
        self.sent.append((host, "create", args))
        return super().create(host, kind, *args)

    def call(self, host: int, worker: str, method: str, *args: Any) -> Any:
        self.sent.append((host, method, args))
        promise = super().call(host, worker, method, *args)
        self._promises[id(promise)] = promise
        if method == "gradients_of":
            self.answers.append((tuple(args[0]), promise))
        elif method in ("answer", "predict_turn"):
            self._turn = (args[1],)
        if method in ("answer", "answer_along"):
            self.answers.append((self._turn, promise))
        return promise

    def messages(self) -> Iterator[tuple[int, str, bytes]]:
        """Yield every message: the host that it went to, the method, and all that was in it."""
        for host, method, args in self.sent:
            values = [self.get([arg])[0] if id(arg) in self._promises else arg for arg in args]
            yield host, method, pickle.dumps(values, protocol=5)

    def gradients(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the gradients that parties (0-based) got, which is those with features."""
        for parties, promise in self.answers:
            value = self.get([promise])[0]
            blocks = (value.grad_bo,) if isinstance(value, Answer) else value.blocks
            assert isinstance(value, Answer | GroupReply)
            yield from ((k, block) for k, block in zip(parties, blocks, strict=True) if block.size)


def holds(message: bytes, values: np.ndarray) -> bool:
    """Whether the bytes of any of these numbers, zeros left out, are in a message."""
    return any(value.tobytes() in message for value in np.unique(values[values != 0]))


def assert_private(runtime: Audited, place: Placement, labels: np.ndarray, alone: Set[int] = frozenset()) -> None:
    """Check that labels stay where they are, and that each party's gradient goes to its host alone.

    Args:
        runtime: Which a run has used.
        place: Where participants were.
        labels: Distinct numbers of float64, which no feature has.
        alone: The party (0-based) that has labels alone, and gets no gradient.
    """
    messages = list(runtime.messages())
    gradients = list(runtime.gradients())
    hosts = {k: host for host, group in zip(place.group_hosts, place.groups, strict=True) for k in group}
    assert {k for k, _ in gradients} == hosts.keys() - alone
    for host, method, message in messages:
        assert not holds(message, labels), f"labels went to host {host} in {method}"
        for k, grad_bo in gradients:
            if host != hosts[k]:
                assert not holds(message, grad_bo[:1, :2]), f"the gradient of party {k} went to host {host} in {method}"
    for k, grad_bo in gradients:
        assert any(host == hosts[k] and holds(message, grad_bo[:1, :2]) for host, _, message in messages)
