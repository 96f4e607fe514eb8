"""The seam between the driver and the places where participants live.

A host is a process that holds participants. The driver creates them in hosts and calls their methods; a call returns a
promise at once, and a promise may be an argument of a later call, whose method then gets the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

T = TypeVar("T")
W = TypeVar("W")

WatchSetup = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""Takes the number of processes that start, and returns a context whose function takes how many have started."""


def unwatched(total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show nothing while processes start."""
    return nullcontext(lambda started: None)


class Host:
    """Holds participants, one of a class. In Ray this becomes an actor."""

    def __init__(self) -> None:
        self._workers: dict[str, Any] = {}

    def create(self, kind: type, *args: Any) -> None:
        """Build a participant, in place of one of the same class."""
        self._workers[kind.__name__] = kind(*args)

    def call(self, worker: str, method: str, *args: Any) -> Any:
        """Call a method of the participant of a class."""
        return getattr(self._workers[worker], method)(*args)

    def clear(self) -> None:
        """Drop all participants; the process stays warm."""
        self._workers.clear()


@dataclass(frozen=True)
class Placement:
    """The host of every participant.

    Args:
        groups: The parties (0-based) of each group, in order; together they are 0 .. K-1.
        group_hosts: Host of each group.
        server_host: Host of the server.
    """

    groups: tuple[tuple[int, ...], ...]
    group_hosts: tuple[int, ...]
    server_host: int


class Runtime(ABC):
    """Hosts of one run. Calls to one host run in the order in which they were made."""

    @abstractmethod
    def create(self, host: int, kind: type, *args: Any) -> Any:
        """Start building a participant in a host; return a promise that ends when it is built."""

    @abstractmethod
    def call(self, host: int, worker: str, method: str, *args: Any) -> Any:
        """Start a call of a participant's method and return its promise.

        Args:
            host: Which host.
            worker: Name of the participant's class.
            method: Name of the method.
            args: Plain values, then promises of earlier calls.
        """

    @abstractmethod
    def get(self, promises: Sequence[T]) -> list[T]:
        """Wait for results; raises what a call raised.

        Raises:
            flexray.core.errors.FlexrayError: A participant failed, or its process died.
        """

    def first(self, promises: Sequence[Any], timeout_s: float | None) -> int | None:
        """Wait until one of the calls has ended and return its place; None if none has within ``timeout_s``.

        Only ``clock=wall`` asks. Where a call is over when it returns, that is the first one.
        """
        self.get(promises[:1])
        return 0


class _Remote:
    """Stands for a participant in a host: its methods start a call."""

    def __init__(self, runtime: Runtime, host: int, worker: str) -> None:
        self._start = partial(runtime.call, host, worker)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._start, method)


def remote(runtime: Runtime, host: int, kind: type[W]) -> W:
    """Return what stands for the participant of this class in a host.

    Its methods return promises. To a type checker they are the values promised, so that it follows a call into the
    participant's class; but only :meth:`Runtime.get` may look into them. Arguments go by place, promises last.
    """
    return cast("W", _Remote(runtime, host, kind.__name__))
