"""What an object is once it has come to an actor."""

from __future__ import annotations

from typing import Any, TypeVar

from ray import cloudpickle

T = TypeVar("T")
Packed = tuple[bytes, list[bytes]]
"""A pickle, and the memory of the arrays in it."""


def pack(thing: Any) -> Packed:
    """Return an object as it is sent."""
    held: list[bytes] = []

    def hold(buffer: Any) -> None:
        held.append(bytes(buffer.raw()))

    return cloudpickle.dumps(thing, protocol=5, buffer_callback=hold), held


def unpack(packed: Packed) -> Any:
    """Return an object as an actor gets it: its arrays are read-only."""
    data, held = packed
    return cloudpickle.loads(data, buffers=held)


def travelled(thing: T) -> T:
    """Return an object as an actor gets it, packed and unpacked in this process."""
    arrived: T = unpack(pack(thing))
    return arrived
