"""What computing, links and time cost, from the keys ``costs.*``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm
from flexray.config.by_participant import optional, resolve
from flexray.config.schedule import WALL
from flexray.core.checks import not_negative, positive, shown
from flexray.core.costs import Costs
from flexray.core.errors import ConfigError


def build_costs(
    config: Mapping[str, Any], names: Sequence[str], algorithm: RoundAlgorithm | EventAlgorithm, time_unit: str
) -> Costs | None:
    """Return the costs that the configuration gives; None if it gives none.

    Args:
        config: The composed configuration.
        names: The parties, then the server.
        algorithm: What the run repeats or plans.
        time_unit: Unit of its times.

    Raises:
        ConfigError: A number is out of range or for an unknown participant, or the run does not know what it costs.
    """
    node, parties = config["costs"], names[:-1]

    def given(key: str, who: Sequence[str]) -> tuple[float, ...]:
        value = node[key]
        return () if value is None else resolve(f"costs.{key}", value, who, not_negative, [0.0] * len(who))

    costs = Costs(
        joules_per_unit=given("joules_per_unit", names),
        joules_per_byte=given("joules_per_byte", parties),
        price_per_hour=given("price_per_hour", names),
        price_per_gb=given("price_per_gb", parties),
        seconds_per_unit=optional("costs.seconds_per_unit", node["seconds_per_unit"], positive) or 1.0,
    )
    if costs.joules_per_unit:
        _check_computing_is_known(config, algorithm)
    if time_unit == "seconds" and node["seconds_per_unit"] is not None:
        raise ConfigError(
            f"costs.seconds_per_unit: times are seconds already; expected null, got {shown(node['seconds_per_unit'])}"
        )
    if time_unit != "seconds" and costs.price_per_hour and node["seconds_per_unit"] is None:
        raise ConfigError(
            "costs.price_per_hour: an hour has no number of units yet; expected costs.seconds_per_unit, too"
        )
    return costs if costs.has_energy or costs.has_price else None


def _check_computing_is_known(config: Mapping[str, Any], algorithm: RoundAlgorithm | EventAlgorithm) -> None:
    if config["speeds"]["kind"] == "replay":
        raise ConfigError(
            "costs.joules_per_unit: speeds=replay does not know how long each participant computed; expected null"
        )
    if config["clock"]["kind"] == WALL and algorithm.takes_turns:
        raise ConfigError(
            "costs.joules_per_unit: in turns on clock=wall the server's computing is not measured; expected null"
        )
