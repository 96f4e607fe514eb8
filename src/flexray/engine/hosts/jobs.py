"""Many functions at once, each in a process somewhere: what has ended comes back, what was lost runs again.

This module knows no Ray; :mod:`flexray.engine.hosts.ray.jobs` is the place that has the processes.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from flexray.core.checks import listed
from flexray.core.errors import FlexrayError, LostProcessError

MOST_LOSSES = 3
"""How often a job whose process was lost runs again."""
CHECK_S = 5.0
"""How often to see whether there is still a place for jobs, while none ends."""
FEW = 8
"""Jobs that a line names."""

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger("flexray")


class Pool(Protocol):
    """Processes, each for one job at a time, which are there within a ``with`` block."""

    def __enter__(self) -> Self:
        """Get them."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End them, whatever they do."""

    def submit(self, work: Callable[[T], R], item: T) -> Any:
        """Have ``work(item)`` computed as soon as a process is free; return what stands for its result.

        Raises:
            flexray.core.errors.ConfigError: The item, such as an object of the user's, cannot be sent.
        """

    def ready(self, calls: Sequence[Any], timeout_s: float) -> list[Any]:
        """Return those that have ended; wait until one has, or for so many seconds."""

    def result(self, call: Any) -> Any:
        """Return the result of a call that has ended.

        Raises:
            flexray.core.errors.LostProcessError: Its process or node is gone.
            flexray.core.errors.FlexrayError: It raised.
            concurrent.futures.CancelledError: It was cancelled before it had a result.
        """

    def cancel(self, call: Any) -> None:
        """Interrupt a call as Ctrl-C would; one that has not begun never does."""

    def check(self) -> None:
        """Check that a process could be had.

        Raises:
            flexray.core.errors.ResourceError: No node is large enough, or none is left that was.
        """


class Jobs(Generic[T, R]):
    """Calls of one function that run side by side.

    Args:
        pool: Where.
        work: What each job does; it must be importable where the pool is.
        items: What it is given, by the number of the job.
    """

    def __init__(self, pool: Pool, work: Callable[[T], R], items: Mapping[int, T]) -> None:
        self._pool, self._work, self._items = pool, work, items
        self._calls: dict[Any, int] = {}
        self._losses = Counter[int]()
        self._stopping = threading.Event()

    def run(self) -> Iterator[tuple[int, R | FlexrayError]]:
        """Yield number and result of each job as it ends: what the function returned, or why there is nothing.

        A job whose process was lost runs again, up to :data:`MOST_LOSSES` times.

        Raises:
            flexray.core.errors.ResourceError: No process can be had (any more).
        """
        self._pool.check()
        for number in self._items:
            self._submit(number)
        while self._calls:
            ended = self._pool.ready(list(self._calls), CHECK_S)
            lost: dict[int, LostProcessError] = {}
            for call in ended:
                number, result = self._calls.pop(call), self._outcome(call)
                if isinstance(result, LostProcessError):
                    lost[number] = result
                elif isinstance(result, CancelledError):  # if nobody asked for it, something there interrupted it
                    lost[number] = LostProcessError("a job", "its process", "a process was interrupted")
                else:
                    yield number, result
            yield from self._again(lost)
            if (lost or not ended) and self._calls:
                self._pool.check()

    def stop(self) -> None:
        """Interrupt what runs and begin nothing more; may be called from another thread."""
        self._stopping.set()
        for call in list(self._calls):
            self._pool.cancel(call)

    def _submit(self, number: int) -> None:
        if self._stopping.is_set():
            return
        call = self._pool.submit(self._work, self._items[number])
        self._calls[call] = number
        if self._stopping.is_set():  # meanwhile
            self._pool.cancel(call)

    def _outcome(self, call: Any) -> R | FlexrayError | CancelledError:
        try:
            result: R = self._pool.result(call)
        except (FlexrayError, CancelledError) as error:
            return error
        return result

    def _again(self, lost: Mapping[int, LostProcessError]) -> Iterator[tuple[int, LostProcessError]]:
        """Have lost jobs run again and say so; yield those that were lost too often."""
        self._losses.update(lost.keys())
        again = [number for number in lost if self._losses[number] <= MOST_LOSSES and not self._stopping.is_set()]
        if again:
            names = listed([str(number) for number in again], FEW)
            many = f"job {names} runs" if len(again) == 1 else f"jobs {names} run"
            log.warning("%s; %s again", lost[again[0]].cause, many)
        for number in again:
            self._submit(number)
        if not self._stopping.is_set():
            yield from ((number, error) for number, error in lost.items() if number not in again)
