"""The key ``timeout``: a number, null for that of the chosen speeds, or ``auto``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flexray.algorithms.adaptive import AdaptiveFlexVFL
from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm
from flexray.core.checks import positive, shown
from flexray.core.errors import ConfigError, near_match

AUTO = "auto"


def fixed_timeout(value: Any) -> float | None:
    """Return the timeout that was given, or None: that of the speeds, from which ``auto`` starts, too.

    Raises:
        ConfigError: It is neither a positive number nor ``auto``.
    """
    if value is None or value == AUTO:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        hint = near_match(value, [AUTO], list_all=False) or f"; {AUTO} chooses one"
        raise ConfigError(f"timeout: expected a number, got {shown(value)}{hint}")
    return positive("timeout", value)


def check_auto(config: Mapping[str, Any], algorithm: RoundAlgorithm | EventAlgorithm) -> None:
    """Refuse ``timeout=auto`` where no timeout is read, or one is needed beforehand.

    Raises:
        ConfigError: It names the key and what was expected.
    """
    if config["timeout"] != AUTO or config["speeds"]["kind"] == "replay":
        return
    if not algorithm.has_timeout:
        raise ConfigError(
            f"timeout: {type(algorithm).__name__} has none to choose; expected null,"
            " or an algo with a timeout (flex, adaptive, sync_min, sync_max), got auto"
        )
    if config["clock"]["kind"] == "wall":
        raise ConfigError("timeout: auto plans with known seconds; expected a number with clock=wall, got auto")
    if config["rates"] == "static":
        raise ConfigError("rates: static rates are those of one timeout; expected fixed with timeout=auto, got static")
    if isinstance(algorithm, AdaptiveFlexVFL) and not algorithm.weighted:
        raise ConfigError(
            "adaptive.weighted: the published rule starts from one timeout; expected true with timeout=auto, got false"
        )
