"""Parties that miss rounds, from the keys ``absence.*`` (:mod:`flexray.absence`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flexray.absence import Absences, DrawnAbsences
from flexray.algorithms.base import EventAlgorithm
from flexray.errors import ConfigError
from flexray.experiment import Experiment
from flexray.values import number, resolve, shown


def with_absences(config: Mapping[str, Any], x: Experiment) -> Experiment:
    """Return the experiment with the absences that the configuration asks for, or that an earlier run recorded.

    Raises:
        ConfigError: A number is out of range or for nobody, or the run has no rounds that could be missed so.
    """
    drawn = _drawn(config, x)
    if drawn.possible:
        _refuse_what_has_no_rounds(config, x, "absence.probability" if any(drawn.probability) else "absence.above")
    absences: Absences | None = drawn if drawn.possible else x.absences
    if absences is None:
        return x
    return replace(x, absences=absences, shared=replace(x.shared, may_miss=absences.possible))


def _drawn(config: Mapping[str, Any], x: Experiment) -> DrawnAbsences:
    node, parties = config["absence"], x.names[:-1]
    return DrawnAbsences(
        x.shared.seed,
        resolve("absence.probability", node["probability"], parties, _probability, [0.0] * len(parties)),
        resolve("absence.above", node["above"], parties, _threshold, [math.inf] * len(parties)),
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


def _threshold(key: str, value: Any) -> float:
    return number(key, value, above=0, high=1)
