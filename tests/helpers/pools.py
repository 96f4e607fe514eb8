"""Processes for many jobs that are none: each job runs in this one, on a copy, as another machine gets it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, Self

from flexray.core.errors import LostProcessError


class CopyingPool:
    """Runs calls when they are waited for, one at a time, the last first.

    Args:
        losses: How many of the first calls come back as lost.
    """

    def __init__(self, losses: int = 0) -> None:
        self.losses = losses
        self.submitted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def submit(self, work: Callable[[Any], Any], item: Any) -> Any:
        self.submitted += 1
        return pickle.dumps((self.submitted, work, item))

    def ready(self, calls: Sequence[Any], timeout_s: float) -> list[Any]:
        return [calls[-1]]

    def result(self, call: Any) -> Any:
        number, work, item = pickle.loads(call)
        if number <= self.losses:
            raise LostProcessError("a job", "its process", "node 10.0.0.2 is gone")
        return pickle.loads(pickle.dumps(work(item)))

    def cancel(self, call: Any) -> None:
        pass

    def check(self) -> None:
        pass
