"""A Ray that this process started or joined."""

from __future__ import annotations

import logging
from typing import Any

import ray
from ray.exceptions import AuthenticationError

from flexray.core.errors import ResourceError
from flexray.engine.hosts.ray.environment import batch_scheduling, environment, inherited, quiet, worker_path
from flexray.engine.hosts.ray.home import TemporaryHome
from flexray.engine.hosts.ray.joining import cannot_use, check_joinable
from flexray.engine.hosts.resources import MachineLock

LOCAL_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # the run is what the user waits for
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # of calls whose results nobody reads any more after a process was lost
    "RAY_event_stats": "0",  # bookkeeping of every call that nobody reads here
    "RAY_enable_timeline": "0",  # the same
    "RAY_enable_metrics_collection": "0",  # of every call, too; set it to 1 to read a local Ray's endpoint
}

QUIET = ("ray._private.authentication.authentication_token_setup",)
"""Loggers that only say that the default is in force: token authentication stays on."""

FAULTS = (AuthenticationError, ConnectionError, RuntimeError, ValueError)
"""What Ray raises when it cannot be started or joined."""

log = logging.getLogger("flexray")


class Connection:
    """The Ray of this process, one at a time.

    Args:
        log_to_driver: Show here what processes of the cluster print.
    """

    def __init__(self, log_to_driver: bool = True) -> None:
        self._common = {"log_to_driver": log_to_driver, "logging_level": logging.WARNING, "configure_logging": False}
        self._is_open = False
        self._home: TemporaryHome | None = None
        self._machine = MachineLock()

    @property
    def is_own(self) -> bool:
        """Whether this process started the Ray that it uses."""
        return self._home is not None

    def join(self, address: str, **runtime_env: Any) -> None:
        """Join a running cluster.

        Args:
            address: ``auto`` or ``HOST:PORT``.
            runtime_env: More of what Ray gives to processes there.

        Raises:
            flexray.core.errors.ResourceError: There is none that this process may use.
        """
        variables = {"PYTHONPATH": worker_path(), "RAY_IGNORE_UNHANDLED_ERRORS": "1"}
        with quiet(QUIET):
            _check_unused()
            check_joinable(address)
            try:
                ray.init(address=address, runtime_env={"env_vars": variables, **runtime_env}, **self._common)
            except FAULTS as error:
                raise cannot_use(address, error) from error
        self._is_open = True

    def start(self, cpus: int) -> None:
        """Start a Ray on this machine.

        Raises:
            flexray.core.errors.ResourceError: It does not start, or this process uses another.
        """
        _check_unused()
        self._machine.announce()
        log.info("starting Ray on %d CPUs", cpus)
        try:
            with quiet(QUIET), environment(PYTHONPATH=worker_path(), **LOCAL_RAY, **inherited()), batch_scheduling():
                self._home = TemporaryHome()
                home = self._home.path
                ray.init(address="local", num_cpus=cpus, include_dashboard=False, _temp_dir=home, **self._common)
        except FAULTS as error:
            raise cannot_use(None, error) from error
        self._is_open = True

    def close(self) -> None:
        """Leave the cluster; one that this process started ends."""
        if self._is_open:
            ray.shutdown()
            self._is_open = False
        if self._home is not None:
            self._home.release()
            self._home = None
        self._machine.release()


def _check_unused() -> None:
    """Refuse to take over a Ray that code which is none of flexray's, or another block of it, uses in this process."""
    if ray.is_initialized():
        raise ResourceError("cluster: this process uses Ray already; expected ray.shutdown() before, or cluster=inline")
