"""What an object is once it has come to an actor."""

from __future__ import annotations

from typing import Any, TypeVar

from ray import cloudpickle

T = TypeVar("T")


def travelled(thing: T) -> T:
    """Return an object as an actor gets it: pickled and unpickled, with its arrays in memory that is read-only."""
    held: list[memoryview] = []

    def hold(buffer: Any) -> None:
        held.append(buffer.raw())

    data = cloudpickle.dumps(thing, protocol=5, buffer_callback=hold)
    arrived: T = cloudpickle.loads(data, buffers=[bytes(part) for part in held])
    return arrived
