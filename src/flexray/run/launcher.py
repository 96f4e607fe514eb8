"""``hydra/launcher=ray``: the jobs of a sweep on the CPUs of a Ray cluster's nodes, a process for each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, configure_log, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from flexray.config.by_participant import count
from flexray.core.checks import not_negative, positive
from flexray.core.errors import ConfigError, FlexrayError
from flexray.core.runfolder import check_files
from flexray.run.errands import Errand, Report, run_errand
from flexray.run.interrupts import Interrupts
from flexray.run.save.parcel import pack, unpack

if TYPE_CHECKING:
    from flexray.run.session import Session

PLUGINS = "hydra_plugins.flexray"
"""Hydra makes launchers of classes of this package only."""


@dataclass
class RayLauncherConfig:
    """Keys of ``hydra.launcher``: which cluster, and what each job gets there.

    ``address``: ``auto``, ``HOST:PORT`` of a running cluster, or ``local`` to start Ray on this machine.
    """

    _target_: str = f"{PLUGINS}.RayLauncher"
    address: str = "${cluster.address}"
    num_cpus: float = 1.0
    num_gpus: float = 0.0
