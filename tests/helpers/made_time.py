"""Processes that compute side by side, in made-up seconds: a run in real seconds, without its noise and its wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from flexray.engine.driver.seam import Host, Runtime, T
from flexray.engine.parties import pace

TICK_S = 1e-9
"""What passes in any wait, as it does really: sums of seconds end a rounding error early."""


@dataclass
class Now:
    """The time, which passes when somebody says so.

    Args:
        s: The time.
        here: The process that has the word: a host's number, -1 the driver.
        computed_s: What each process computed of messages.
    """

    s: float = 0.0
    here: int = -1
    computed_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))

    def handle(self, seconds: float) -> None:
        """Let the process that has the word compute."""
        self.s += seconds
        self.computed_s[self.here] += seconds


def set_clocks(now: Now, patch: pytest.MonkeyPatch) -> None:
    """Let everything that reads the clock or sleeps take its time from ``now``."""

    def sleep(clock: pace.Clock, seconds: float) -> None:
        now.s += max(0.0, seconds) + TICK_S

    patch.setattr(pace.Clock, "now", lambda clock: now.s)
    patch.setattr(pace.Clock, "sleep", sleep)
    patch.setattr(pace.Clock, "computed", lambda clock: now.computed_s[now.here])


def model_that_takes(now: Now) -> type[nn.Module]:
    """Return a class of linear models whose local iterations take ``seconds``, a third of it forward."""

    class Back(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
            ctx.seconds = seconds
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
            now.s += ctx.seconds
            return grad, None

    class Takes(nn.Module):
        def __init__(self, in_features: int, out_features: int, seconds: float = 0.0) -> None:
            super().__init__()
            self.layer, self.seconds = nn.Linear(in_features, out_features), seconds

        def forward(self, x: Tensor) -> Tensor:
            if not self.training or not self.layer.weight.requires_grad:  # an evaluation, a copy of the server's
                return self.layer(x)
            now.s += self.seconds / 3
            return Back.apply(self.layer(x), self.seconds * 2 / 3)

    return Takes


@dataclass
class Made:
    """What a call returned, and when its caller has it."""

    value: Any
    end_s: float


class SideBySide(Runtime):
    """Hosts that compute at the same time.

    Args:
        now: The time.
        call_s: Seconds until a call arrives, and until its answer does.
        submit_s: Seconds that the driver is busy with a call.
        message_s: Seconds that a host is busy with a call before it computes.
    """

    def __init__(self, now: Now, call_s: float, submit_s: float = 0.0, message_s: float = 0.0) -> None:
        self._now, self._call_s, self._submit_s, self._message_s = now, call_s, submit_s, message_s
        self._hosts: defaultdict[int, Host] = defaultdict(Host)
        self._free_s: defaultdict[int, float] = defaultdict(float)

    @override
    def create(self, host: int, kind: type, *args: Any) -> Any:
        return Made(self._hosts[host].create(kind, *args), self._now.s)

    @override
    def call(self, host: int, worker: str, method: str, *args: Any) -> Any:
        self._now.handle(self._submit_s)
        here_s = self._now.s
        there_s = [arg.end_s for arg in args if isinstance(arg, Made)]
        self._now.s = max(self._free_s[host], *(s + self._call_s for s in (here_s, *there_s)))
        self._now.here = host
        self._now.handle(self._message_s)
        value = self._hosts[host].call(worker, method, *(a.value if isinstance(a, Made) else a for a in args))
        self._free_s[host], self._now.s, self._now.here = self._now.s, here_s, -1
        return Made(value, self._free_s[host] + self._call_s)

    @override
    def get(self, promises: Sequence[T]) -> list[T]:
        made: Sequence[Any] = promises
        self._now.s = max([self._now.s, *(one.end_s for one in made)])
        return [one.value for one in made]

    @override
    def first(self, promises: Sequence[Any], timeout_s: float | None) -> int | None:
        place, soonest = min(enumerate(promises), key=lambda each: each[1].end_s)
        if timeout_s is not None and soonest.end_s > self._now.s + timeout_s:
            self._now.s += timeout_s + TICK_S
            return None
        self._now.s = max(self._now.s, soonest.end_s)
        return place
