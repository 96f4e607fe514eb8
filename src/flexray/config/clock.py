"""From ``clock`` and ``speeds=replay`` of the configuration to whose time is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flexray.algorithms.base import EventAlgorithm
from flexray.algorithms.replay import ReplayRounds, ReplayTurns
from flexray.algorithms.vafl import VAFL
from flexray.config.recording import Recording, read_recording
from flexray.core.absence import RecordedAbsences
from flexray.core.checks import shown
from flexray.core.errors import ConfigError, near_match
from flexray.engine.driver.experiment import Experiment, LearningRateDecay, WallClock

CLOCKS = VIRTUAL, WALL = "virtual", "wall"
OVERRIDES = ("iterations", "unit_time", "utilization")


def with_clock(config: Mapping[str, Any], experiment: Experiment, algo: str, base_dir: Path) -> Experiment:
    """Return the experiment on the clock that was chosen, or as the repetition of an earlier run.

    Args:
        config: The composed configuration.
        experiment: On the virtual clock.
        algo: Name of the chosen algorithm.
        base_dir: Folder that a relative ``speeds.path`` starts from.
    """
    kind = config["clock"]["kind"]
    if kind not in CLOCKS:
        raise ConfigError(f"clock.kind: unknown '{kind}'{near_match(str(kind), CLOCKS)}")
    if config["speeds"]["kind"] == "replay":
        if kind == WALL:
            raise ConfigError("clock: speeds=replay repeats a run on the virtual clock; expected clock=virtual")
        return _replayed(config, experiment, algo, base_dir)
    return _on_wall_clock(config, experiment) if kind == WALL else experiment


def _on_wall_clock(config: Mapping[str, Any], x: Experiment) -> Experiment:
    """Return the experiment in real seconds, in which overruns and a busy server are really waited for."""
    if (overrun := config["speeds"]["overrun"]) != "wait":
        raise ConfigError(f"speeds.overrun: clock=wall really waits; expected wait, got {shown(overrun)}")
    if isinstance(x.algorithm, VAFL) and x.algorithm.server != "queue":
        raise ConfigError(f"algo.server: clock=wall really waits; expected queue, got {shown(x.algorithm.server)}")
    algorithm = x.algorithm.for_system(replace(x.algorithm.system, waits_for_overrun=False))
    wall = WallClock(config["rates"] == "static")
    return replace(x, algorithm=algorithm, wall=wall, time_unit="seconds")


def _replayed(config: Mapping[str, Any], x: Experiment, algo: str, base_dir: Path) -> Experiment:
    path = config["speeds"]["path"]
    if not path:
        raise ConfigError(f"speeds.path: expected the folder of an earlier run, got {shown(path)}")
    for key in OVERRIDES:
        if config["speeds"][key] is not None:
            raise ConfigError(f"speeds.{key}: not used with speeds=replay, which repeats what was recorded")
    recording = read_recording(base_dir / Path(path).expanduser(), x.names)
    _check_algorithm(recording, algo, isinstance(x.algorithm, EventAlgorithm))
    count = len(recording.rounds)
    if x.limits.rounds is not None and x.limits.rounds > count:
        raise ConfigError(f"rounds: {x.limits.rounds} is more than the {count} that {recording.folder} recorded")
    absent = [recorded.absent for recorded in recording.rounds]
    replay = ReplayTurns if recording.by_turns else ReplayRounds
    return replace(
        x,
        algorithm=replay(x.algorithm.system, recording.rounds),
        decays=(LearningRateDecay(),) * len(x.names),  # recorded rates are decayed already
        limits=replace(x.limits, rounds=x.limits.rounds or count),
        time_unit=str(recording.summary.get("time_unit", "units")),
        absences=None if absent[0] is None else RecordedAbsences(tuple(away or frozenset() for away in absent)),
    )


def _check_algorithm(recording: Recording, algo: str, by_turns: bool) -> None:
    """Refuse to call the repetition of one algorithm by another's name."""
    recorded = recording.summary.get("algo", algo if recording.by_turns == by_turns else None)
    if recorded != algo:
        expected = f"algo={recorded}" if recorded else "algo=vafl" if recording.by_turns else "another than algo=vafl"
        raise ConfigError(f"algo: {algo} is chosen, but {recording.folder} recorded another; expected {expected}")
