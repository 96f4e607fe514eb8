"""Temporary folders of processes that may be killed at any time."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NEW, IN_USE = "flexray-new-", "flexray-job-"
LOCK = "lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder for the block; those that killed processes left on this machine are removed first."""
    remove_abandoned()
    new = Path(tempfile.mkdtemp(prefix=NEW))
    with (new / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the process, however that ends
        folder = new.rename(new.with_name(new.name.replace(NEW, IN_USE)))  # none is seen without its lock
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the folders of processes that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{IN_USE}*"):
        with suppress(OSError), (folder / LOCK).open() as lock:  # of another user, or just removed
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
