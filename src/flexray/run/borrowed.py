"""What a run borrows of the process that calls it, and gives back as it was."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ONE_AT_A_TIME = threading.RLock()
"""Runs of one process share Hydra's and PyTorch's global state: one waits for another."""


@contextmanager
def borrowed_process() -> Iterator[None]:
    """Find modules in the current folder, too, as the command does; environment and ``sys.path`` come back."""
    with ONE_AT_A_TIME:
        environment, path = dict(os.environ), list(sys.path)
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            yield
        finally:
            sys.path[:] = path
            for key in os.environ.keys() - environment.keys():
                del os.environ[key]
            os.environ.update({key: text for key, text in environment.items() if os.environ.get(key) != text})
