"""What the processes that Ray starts are given."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ray._private.ray_constants import ENABLE_RAY_CLUSTER

from flexray.engine.hosts.loopback import VARIABLE

SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""What Ray sets for the command of ``ray job submit``."""

log = logging.getLogger("flexray")


def worker_path() -> str:
    """Return a PYTHONPATH with which workers find what this process finds, besides what is installed."""
    package_home = str(Path(__file__).resolve().parents[4])
    installed = (sys.prefix, sys.base_prefix)
    own = [os.path.abspath(path) for path in sys.path if not path.startswith(installed)]
    return os.pathsep.join(dict.fromkeys(path for path in (package_home, *own) if os.path.isdir(path)))


def own_modules() -> dict[str, Any]:
    """Return the runtime environment that takes the user's Python files and packages to every node.

    They are those of the current folder and of the script's; nothing goes along from a submitted job, as Ray has taken
    its folder there already.
    """
    if SUBMITTED in os.environ:
        return {}
    script = [path for path in sys.path[:1] if not path.startswith((sys.prefix, sys.base_prefix))]
    folders = {Path(folder).absolute() for folder in ("", *script)}
    found = {path for folder in folders for path in (*folder.glob("*.py"), *folder.glob("*/__init__.py"))}
    modules = {path.parent if path.name == "__init__.py" and path.parent not in folders else path for path in found}
    return {"py_modules": sorted(map(os.fspath, modules))} if modules else {}


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


def inherited() -> dict[str, str]:
    """Return what the processes of a local Ray need to listen where this process does, also when Ray starts again."""
    return {} if ENABLE_RAY_CLUSTER else {VARIABLE: "0"}


@contextmanager
def quiet(names: Sequence[str]) -> Iterator[None]:
    """Let these loggers speak of errors only."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Have Linux treat processes that are started inside the block as batch work, which any user may ask for.

    Each then goes on for as long as its time slice lasts instead of being interrupted whenever another one is sent a
    message; and none interrupts another program. Where the processes are more than the cores, there are more short
    rounds a second (5.8 % with 4 parties on 2 cores of an AMD EPYC). A policy that the user chose stays.
    """
    if not hasattr(os, "SCHED_BATCH") or os.sched_getscheduler(0) != os.SCHED_OTHER:
        yield
        return
    unchanged = os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, unchanged)
    except OSError as error:  # a container may forbid it
        log.debug("processes are scheduled as usual: %s", error)
    try:
        yield
    finally:
        if os.sched_getscheduler(0) == os.SCHED_BATCH:
            os.sched_setscheduler(0, os.SCHED_OTHER, unchanged)
