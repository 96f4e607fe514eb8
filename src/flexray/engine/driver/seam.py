"""The seam between the driver and the places where participants live.

A host is a process that holds named workers. The driver creates workers in hosts and calls their methods; a call
returns a handle at once, and a handle may be an argument of a later call, whose method then gets the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

Handle = Any
"""The future result of a call; opaque to the driver."""


Request = list[Any]
"""Worker, method and list of plain arguments of a call: one object, since Ray charges for each, and without
tuples and classes where a round is concerned, which Ray would pickle."""


WatchSetup = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""Takes how many processes start; what it returns is entered meanwhile, and called with how many have started."""


def unwatched(total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show nothing while processes start."""
    return nullcontext(lambda started: None)


class Host:
    """Holds named workers. In Ray this becomes an actor."""

    def __init__(self) -> None:
        self._workers: dict[str, Any] = {}

    def create(self, worker: str, factory: Callable[..., Any], *args: Any) -> None:
        """Build a worker, in place of one of the same name."""
        self._workers[worker] = factory(*args)

    def call(self, request: Request, *results: Any) -> Any:
        """Call a method of a worker with the request's arguments, then results of earlier calls."""
        worker, method, args = request
        return getattr(self._workers[worker], method)(*args, *results)

    def clear(self) -> None:
        """Drop all workers; the process stays warm."""
        self._workers.clear()


@dataclass(frozen=True)
class Placement:
    """Which host holds whom.

    Args:
        groups: The parties (0-based) of each group, in order; together they are 0 .. K-1.
        group_hosts: Host of each group.
        server_host: Host of the server.
    """

    groups: tuple[tuple[int, ...], ...]
    group_hosts: tuple[int, ...]
    server_host: int


class Runtime(ABC):
    """Hosts of one run."""

    @abstractmethod
    def create(self, host: int, worker: str, factory: Callable[..., Any], *args: Any) -> Handle:
        """Start building a worker in a host."""

    @abstractmethod
    def call(self, host: int, request: Request, *handles: Handle) -> Handle:
        """Start a call; calls to one host run in the order in which they were made.

        Args:
            host: Which host.
            request: Worker, method and plain arguments.
            handles: Results of earlier calls, which follow the plain arguments.
        """

    @abstractmethod
    def get(self, handles: Sequence[Handle]) -> list[Any]:
        """Wait for results; raises what a call raised.

        Raises:
            flexray.core.errors.FlexrayError: A participant failed, or its process died.
        """

    def first(self, handles: Sequence[Handle], timeout_s: float | None) -> int | None:
        """Wait until one of the calls has ended and return its place; None if none has within ``timeout_s``.

        Only ``clock=wall`` asks. Where a call is over when it returns, that is the first one.
        """
        self.get(handles[:1])
        return 0
