"""Which driver runs an experiment."""

from __future__ import annotations

from flexray.algorithms.base import EventAlgorithm
from flexray.engine.driver.base import Driver
from flexray.engine.driver.events import EventDriver
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.rounds import RoundDriver
from flexray.engine.driver.seam import Placement, Runtime
from flexray.engine.driver.wall_calibration import CalibrationDriver
from flexray.engine.driver.wall_events import WallEventDriver
from flexray.engine.driver.wall_rounds import WallRoundDriver

__all__ = ["Driver", "make_driver"]


def make_driver(experiment: Experiment, runtime: Runtime, placement: Placement) -> Driver:
    """Return the driver that fits the experiment's algorithm."""
    if isinstance(experiment.algorithm, EventAlgorithm):
        if experiment.wall is not None:
            return WallEventDriver(experiment, runtime, placement, experiment.algorithm)
        return EventDriver(experiment, runtime, placement, experiment.algorithm)
    if experiment.wall is not None and experiment.wall.calibrates_s is not None:
        return CalibrationDriver(experiment, runtime, placement, experiment.algorithm, experiment.wall)
    if experiment.wall is not None:
        return WallRoundDriver(experiment, runtime, placement, experiment.algorithm, experiment.wall)
    return RoundDriver(experiment, runtime, placement, experiment.algorithm)
