"""Parties that miss rounds, from the keys ``absence.*`` (:mod:`flexray.core.absence`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm
from flexray.algorithms.checked import left_out
from flexray.config.by_participant import resolve
from flexray.core.absence import Absences, ChosenAbsences, DrawnAbsences
from flexray.core.checks import number, shown
from flexray.core.errors import ConfigError
from flexray.engine.driver.experiment import Experiment


def with_absences(config: Mapping[str, Any], x: Experiment) -> Experiment:
    """Return the experiment with the absences that the configuration asks for, or that an earlier run recorded.

    Raises:
        ConfigError: A number is out of range or for nobody, or the run has no rounds that could be missed so.
    """
    drawn = _drawn(config, x)
    if drawn.possible:
        _refuse_what_has_no_rounds(config, x, "absence.probability" if any(drawn.probability) else "absence.above")
    absences: Absences | None = drawn if drawn.possible else x.absences
    algorithm = x.algorithm
    if isinstance(algorithm, RoundAlgorithm) and type(algorithm).leaves_out is not RoundAlgorithm.leaves_out:
        if x.wall is not None:
            raise ConfigError("clock: the algo leaves parties out of rounds, as in simulation alone; expected virtual")
        absences = ChosenAbsences(partial(left_out, algorithm), len(x.parties), absences)
    if absences is None:
        return x
    return replace(x, absences=absences, shared=replace(x.shared, may_miss=absences.possible))


def _drawn(config: Mapping[str, Any], x: Experiment) -> DrawnAbsences:
    node, parties = config["absence"], x.names[:-1]
    threshold = partial(_threshold, config["speeds"]["max_utilization"])
    return DrawnAbsences(
        x.shared.seed,
        resolve("absence.probability", node["probability"], parties, _probability, [0.0] * len(parties)),
        resolve("absence.above", node["above"], parties, threshold, [math.inf] * len(parties)),
    )


def _refuse_what_has_no_rounds(config: Mapping[str, Any], x: Experiment, key: str) -> None:
    given = shown(config["absence"][key.removeprefix("absence.")])
    if config["speeds"]["kind"] == "replay":
        raise ConfigError(
            f"{key}: speeds=replay repeats who was absent in the recorded run; expected none, got {given}"
        )
    if isinstance(x.algorithm, EventAlgorithm):
        raise ConfigError(f"{key}: parties take turns and have no rounds to miss; expected an algo of rounds, not vafl")
    if x.wall is not None:
        raise ConfigError(f"{key}: absence is simulated on the virtual clock alone; expected clock=virtual")


def _probability(key: str, value: Any) -> float:
    return number(key, value, low=0, below=1)


def _threshold(most: float, key: str, value: Any) -> float:
    """Return a utilization above which a party is absent; no utilization is above ``most``, and 1 means never."""
    above = number(key, value, above=0, high=1)
    if most <= above < 1:
        raise ConfigError(f"{key}: expected a number below speeds.max_utilization, {most:g}, got {shown(value)}")
    return above
