"""``hydra/launcher=ray``, in the one package where Hydra looks for launchers; :mod:`flexray.run.launcher` does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class RayLauncher(Launcher):
    """Runs the jobs of a sweep on a Ray cluster.

    Args:
        keys: Those of ``hydra.launcher``.
    """

    def __init__(self, **keys: Any) -> None:
        self._keys = keys

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what every job shares."""
        self._shared = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run jobs, each given by its overrides."""
        from flexray.run.launcher import SweepOnRay  # imported late: Hydra imports this file for every program

        return SweepOnRay(*self._shared, **self._keys).launch(job_overrides, initial_job_idx)
