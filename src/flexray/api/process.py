"""What a run borrows of the process that calls it, beside :mod:`flexray.run.borrowed`, and its temporary folder."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flexray.config.explain import one_line
from flexray.core.errors import FlexrayError
from flexray.run.borrowed import borrowed_process as borrowed_process
from flexray.run.watch.terminal import RunLog

log = logging.getLogger("flexray")


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
