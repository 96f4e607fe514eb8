"""Numbers that are computed from an object as another process gets it.

By default the object is pickled and unpickled here. A process of its own shows besides what depends on ``hash()``, on
the order of a set, or on what was drawn or changed when a module was imported; it takes seconds to start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

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
        self._pipe, there = Pipe()
        command = [sys.executable, "-c", f"from flexray.check.elsewhere import serve; serve({there.fileno()})"]
        with there:  # what the user's code prints goes where errors go
            self._process = subprocess.Popen(  # noqa: S603 - of our own
                command, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[there.fileno()]
            )

    def __call__(self, numbers: Callable[[Any], T], thing: Any) -> T:
        """Apply a function there and return its result.

        Raises:
            ParticipantError: It raised there, or the process died.
        """
        from flexray.engine.hosts.ray.travel import pack

        try:
            self._pipe.send((numbers, pack(thing)))
            failed, result = self._pipe.recv()
        except (OSError, EOFError) as error:
            raise ParticipantError("check", PHASE, "the process died") from error
        if failed:
            raise ParticipantError("check", PHASE, *result)
        found: T = result
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()


def _answer(numbers: Callable[[Any], Any], packed: Any) -> tuple[bool, Any]:
    from flexray.engine.hosts.ray.travel import unpack

    try:
        return False, numbers(unpack(packed))
    except Exception as error:  # noqa: BLE001 - the one that asks raises it
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        return True, (cause, traceback.format_exc())


def serve(handle: int) -> None:
    """Answer requests that come through a pipe until there are no more."""
    import flexray.check.sorts  # noqa: F401 - takes seconds, while the one that asks imports it, too

    pipe = Connection(handle)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_answer(*pipe.recv()))
