"""What a run borrows of the process that calls it, and gives back as it was."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flexray.config.explain import one_line
from flexray.core.errors import FlexrayError
from flexray.run.watch.terminal import RunLog

ONE_AT_A_TIME = threading.RLock()
"""Runs of one process share Hydra's and PyTorch's global state: one waits for another."""


log = logging.getLogger("flexray")


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


@contextmanager
def run_log(path: Path, form: str) -> Iterator[None]:
    """Write the run's remarks, and why it failed, to its ``run.log``.

    What other handlers get of them depends on the caller's own configuration of logging alone, which is not changed.
    """
    seen, level, file = log.getEffectiveLevel(), log.level, RunLog(os.fspath(path))
    file.setFormatter(logging.Formatter(form))

    def note(record: logging.LogRecord) -> bool:
        file.handle(record)
        return record.levelno >= seen

    log.addFilter(note)
    log.setLevel(min(seen, logging.INFO))
    try:
        yield
    except FlexrayError as error:
        line = f"flexray: {one_line(str(error))}"
        file.handle(log.makeRecord(log.name, logging.ERROR, "", 0, line, (), None))
        raise
    finally:
        log.setLevel(level)
        log.removeFilter(note)
        file.close()


class TemporaryFolder:
    """A new folder that lives as long as this object, at most as long as the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="flexray-"))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def outlive(self) -> None:
        """Keep the folder until the end of the process."""
        atexit.register(self.outlive)  # which holds this object
