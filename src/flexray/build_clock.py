"""From ``clock`` and ``speeds=replay`` of the configuration to whose time is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flexray.absence import RecordedAbsences
from flexray.algorithms.base import EventAlgorithm
from flexray.algorithms.replay import ReplayRounds, ReplayTurns
from flexray.errors import ConfigError, near_match
from flexray.experiment import Experiment, LearningRateDecay, WallClock
from flexray.recording import Recording, read_recording
from flexray.values import shown

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
    if kind == WALL:
        return replace(experiment, wall=WallClock(config["rates"] == "static"), time_unit="seconds")
    return experiment


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
