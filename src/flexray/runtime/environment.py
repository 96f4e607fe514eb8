"""What the processes that Ray starts are given."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def worker_path() -> str:
    """Return a PYTHONPATH with which workers find what this process finds, besides what is installed."""
    package_home = str(Path(__file__).resolve().parents[2])
    installed = (sys.prefix, sys.base_prefix)
    own = [os.path.abspath(path) for path in sys.path if not path.startswith(installed)]
    return os.pathsep.join(dict.fromkeys(path for path in (package_home, *own) if os.path.isdir(path)))


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set environment variables for the processes that are started inside the block; the user's ``RAY_`` ones win."""
    variables = {k: v for k, v in variables.items() if not (k.startswith("RAY_") and k in os.environ)}
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
