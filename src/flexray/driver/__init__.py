"""The driver: runs the rounds (or VAFL's events) of an experiment, on the virtual clock unless told otherwise."""

from __future__ import annotations

from flexray.algorithms.base import EventAlgorithm
from flexray.driver.base import Driver
from flexray.driver.events import EventDriver
from flexray.driver.rounds import RoundDriver
from flexray.driver.wall_events import WallEventDriver
from flexray.driver.wall_rounds import WallRoundDriver
from flexray.experiment import Experiment
from flexray.runtime.base import Placement, Runtime

__all__ = ["Driver", "make_driver"]


def make_driver(experiment: Experiment, runtime: Runtime, placement: Placement) -> Driver:
    """Return the driver that fits the experiment's algorithm."""
    if isinstance(experiment.algorithm, EventAlgorithm):
        if experiment.wall is not None:
            return WallEventDriver(experiment, runtime, placement, experiment.algorithm)
        return EventDriver(experiment, runtime, placement, experiment.algorithm)
    if experiment.wall is not None:
        return WallRoundDriver(experiment, runtime, placement, experiment.algorithm, experiment.wall)
    return RoundDriver(experiment, runtime, placement, experiment.algorithm)
