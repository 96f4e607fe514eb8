"""Numbers that are computed from an object as another process gets it.

By default the object is pickled and unpickled here. A process of its own shows besides what depends on ``hash()``, on
the order of a set, or on what was drawn or changed when a module was imported; it takes seconds to start.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

from flexray.core.errors import ParticipantError

T = TypeVar("T")
Elsewhere = Callable[[Callable[[Any], T], Any], T]
"""Applies a function of flexray to an object that has travelled."""
PHASE = "another process"


def travels(numbers: Callable[[Any], T], thing: Any) -> T:
    """Apply a function to an object that was pickled and unpickled."""
    from flexray.engine.hosts.ray.travel import travelled

    return numbers(travelled(thing))


class FreshProcess:
    """Another Python, with other hashes, which applies functions to what it is sent."""

    def __init__(self) -> None:
        own = os.environ.get("PYTHONHASHSEED", "random")
        environment = {"PYTHONHASHSEED": "2" if own == "1" else "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", "from flexray.check.elsewhere import serve; serve()"]
        self._process = subprocess.Popen(  # noqa: S603 - of our own
            command, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __call__(self, numbers: Callable[[Any], T], thing: Any) -> T:
        """Apply a function there and return its result.

        Raises:
            ParticipantError: It raised there, or the process died.
        """
        from flexray.engine.hosts.ray.travel import pack

        sent = pickle.dumps((numbers, pack(thing)))
        try:
            _write(self._process.stdin, sent)
            failed, result = pickle.loads(_read(self._process.stdout))  # noqa: S301 - from our own process
        except (OSError, EOFError) as error:
            raise ParticipantError("check", PHASE, "the process died") from error
        if failed:
            raise ParticipantError("check", PHASE, *result)
        found: T = result
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def _write(pipe: Any, data: bytes) -> None:
    pipe.write(len(data).to_bytes(8, "big") + data)
    pipe.flush()


def _read(pipe: Any) -> bytes:
    """Return the next message.

    Raises:
        EOFError: There is none.
    """
    size = pipe.read(8)
    data: bytes = pipe.read(int.from_bytes(size, "big"))
    if len(size) < 8 or len(data) < int.from_bytes(size, "big"):
        raise EOFError
    return data


def _answer(request: bytes) -> bytes:
    from flexray.engine.hosts.ray.travel import unpack

    try:
        numbers, packed = pickle.loads(request)  # noqa: S301 - from our own process
        return pickle.dumps((False, numbers(unpack(packed))))
    except Exception as error:  # noqa: BLE001 - the one that asks raises it
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        return pickle.dumps((True, (cause, traceback.format_exc())))


def serve() -> None:
    """Answer requests until there are no more; what the user's code prints does not come between."""
    own: BinaryIO = io.FileIO(os.dup(1), "w")
    os.dup2(2, 1)
    import flexray.check.sorts  # noqa: F401 - takes seconds, while the one that asks imports it, too

    while True:
        try:
            request = _read(sys.stdin.buffer)
        except EOFError:
            return
        _write(own, _answer(request))
