"""What happens to embeddings on links, from keys ``network.*``, and parties that miss rounds, from ``absence.*``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm
from flexray.algorithms.checked import left_out
from flexray.config.by_participant import resolve
from flexray.config.labels import labels_at, with_features
from flexray.core.absence import Absences, ChosenAbsences, DrawnAbsences
from flexray.core.checks import not_negative, number, positive, shown, whole
from flexray.core.errors import ConfigError
from flexray.core.links import PLAIN, Wire
from flexray.core.messages import LABELS_AT
from flexray.engine.driver.experiment import Experiment


def wires(config: Mapping[str, Any], parties: Sequence[str]) -> tuple[Wire, ...]:
    """Return what every party with features does to embeddings that it sends; nothing if that is nothing."""
    node = config["network"]
    columns = [
        resolve("network.clip", node["clip"], parties, positive, [math.inf] * len(parties)),
        resolve("network.noise", node["noise"], parties, not_negative, [0.0] * len(parties)),
        resolve("network.top_k", node["top_k"], parties, partial(number, above=0, high=1), [1.0] * len(parties)),
        resolve("network.bits", node["bits"], parties, _bits, [0.0] * len(parties)),
    ]
    found = tuple(
        Wire(clip if clip < math.inf else None, noise, top_k, int(bits) or None)
        for clip, noise, top_k, bits in zip(*columns, strict=True)
    )
    return () if all(wire == PLAIN for wire in found) else found


def check_algorithm(config: Mapping[str, Any], algorithm: RoundAlgorithm | EventAlgorithm) -> None:
    """Refuse an algorithm together with keys that would make another of it.

    Raises:
        ConfigError: It names the key and the algorithm.
    """
    name = type(algorithm).__name__
    if algorithm.private_labels and config["labels_at"] == "all":
        raise ConfigError(f"labels_at: {name} leaves the labels with one participant; expected server, got all")
    if isinstance(algorithm, RoundAlgorithm) and algorithm.clients > 1 and config["clock"]["kind"] == "wall":
        raise ConfigError("clock: a party's clients compute side by side in simulation alone; expected virtual")
    if algorithm.error_feedback and not config["network"]["error_feedback"]:
        raise ConfigError(f"network.error_feedback: {name} sends what changed; expected true, got false")


def check_overlapping(x: Experiment) -> None:
    """Refuse what times rounds one after another, where those of the algorithm overlap.

    Raises:
        ConfigError: It names the key.
    """
    if not isinstance(x.algorithm, RoundAlgorithm) or not x.algorithm.per_gradient:
        return
    why = "the algo has parties ahead of their gradients"
    if x.wall is not None:
        raise ConfigError(f"clock: {why}, as in simulation alone; expected virtual")
    if x.algorithm.system.measured is not None:
        raise ConfigError(f"speeds: {why}, and measured seconds are of rounds that do not overlap; expected units")
    if x.network is not None and x.network.one_by_one:
        raise ConfigError(
            f"network: {why}, and messages of rounds that overlap are not timed one by one; expected network.t_comm and"
            " network.bandwidth alone"
        )


def _bits(key: str, value: Any) -> float:
    if type(value) is not int or not 1 <= value <= 16:
        raise ConfigError(f"{key}: expected a whole number from 1 to 16, got {shown(value)}")
    return float(value)


def build_absences(
    config: Mapping[str, Any],
    parties: Sequence[str],
    seed: int,
    algorithm: RoundAlgorithm | EventAlgorithm,
    recorded: Absences | None,
) -> Absences | None:
    """Return the absences that the configuration asks for, or those that an earlier run recorded; None: nobody's.

    Raises:
        ConfigError: A number is out of range or for an unknown party, or the run has no rounds to miss.
    """
    node, there = config["absence"], with_features(config, parties)
    count = len(there)
    threshold = partial(_threshold, config["speeds"]["max_utilization"])
    drawn = DrawnAbsences(
        seed,
        resolve("absence.probability", node["probability"], there, partial(number, low=0, below=1), [0.0] * count),
        resolve("absence.above", node["above"], there, threshold, [math.inf] * count),
        None if node["sample"] is None else whole("absence.sample", node["sample"], low=1, high=count),
    )
    if drawn.possible:
        given = {"probability": any(drawn.probability), "above": min(drawn.above) < 1, "sample": True}
        _refuse_without_rounds(config, next(key for key, is_given in given.items() if is_given), algorithm)
    absences: Absences | None = drawn if drawn.possible else recorded
    if isinstance(algorithm, RoundAlgorithm) and type(algorithm).leaves_out is not RoundAlgorithm.leaves_out:
        if config["clock"]["kind"] == "wall":
            raise ConfigError("clock: the algo leaves parties out of rounds, as in simulation alone; expected virtual")
        absences = ChosenAbsences(partial(left_out, algorithm), len(parties), absences)
    holder = labels_at(config, parties)
    if absences is not None and holder not in LABELS_AT and parties.index(holder) in absences.possible:
        raise ConfigError(
            f"labels_at: {holder} may miss rounds, and without labels nobody learns; expected a party that does not"
        )
    return absences


def _refuse_without_rounds(config: Mapping[str, Any], key: str, algorithm: RoundAlgorithm | EventAlgorithm) -> None:
    if config["speeds"]["kind"] == "replay":
        raise ConfigError(
            f"absence.{key}: speeds=replay repeats who was absent in the recorded run; expected none,"
            f" got {shown(config['absence'][key])}"
        )
    if algorithm.takes_turns:
        raise ConfigError(
            f"absence.{key}: parties take turns and have no rounds to miss; expected an algo of rounds, not vafl"
        )
    if config["clock"]["kind"] == "wall":
        raise ConfigError(f"absence.{key}: absence is simulated on the virtual clock alone; expected clock=virtual")


def _threshold(most: float, key: str, value: Any) -> float:
    """Return a utilization above which a party is absent; no utilization is above ``most``, and 1 means never."""
    above = number(key, value, above=0, high=1)
    if most <= above < 1:
        raise ConfigError(f"{key}: expected a number below speeds.max_utilization, {most:g}, got {shown(value)}")
    return above
