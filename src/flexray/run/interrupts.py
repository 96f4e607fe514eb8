"""Ctrl-C and SIGTERM: the first ends a run after its current round, the second at once."""

from __future__ import annotations

import logging
import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)
JOIN_S = 1.0
"""Longest wait for the thread, which is idle or is calling ``stop``."""

log = logging.getLogger("flexray")


class Interrupts:
    """Handles signals within its ``with`` block; before :meth:`arm` each ends the run at once."""

    def __init__(self) -> None:
        self.seen = False
        self._stop: Callable[[], None] | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._calls = queue.SimpleQueue[bool]()  # safe for a handler, whatever it interrupted
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            found = {number: signal.getsignal(number) for number in SIGNALS}
            self._before = {number: handler for number, handler in found.items() if handler is not None}  # set by C
            self._install()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._calls.put(False)
        if self._thread is not None:  # one that outlives the interpreter may bring the process down
            self._thread.join(JOIN_S)

    def arm(self, stop: Callable[[], None]) -> None:
        """Make the first signal call ``stop``, in a thread of its own; also if Ray took the signals over."""
        self._stop = stop
        if self._before:
            self._install()
        if self._thread is None:  # not in the handler: it may have interrupted the start of another thread
            self._thread = threading.Thread(target=self._wait, name="flexray-stop", daemon=True)
            self._thread.start()
        if self.seen:
            self._calls.put(True)

    def _install(self) -> None:
        for number in self._before:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.seen or self._stop is None:
            raise KeyboardInterrupt
        self.seen = True
        log.warning("stopping after the current round; once more ends at once")
        self._calls.put(True)

    def _wait(self) -> None:
        while self._calls.get():
            if self._stop is not None:
                self._stop()
