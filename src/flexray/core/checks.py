"""Numbers of the configuration and the ranges in which they make sense.

One rule for all of them: a number is finite and at most :data:`LARGEST`, so that what is computed from two of them
still fits a float32, and a whole number is at most :data:`LARGEST_WHOLE`, so that a product of two or three still fits
the 64 bits that torch and NumPy count in.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

from flexray.core.errors import ConfigError, UserError, near_match

LARGEST = 1e18
SMALLEST = 1e-18
"""Of positive numbers: what is divided by one of them stays finite."""
LARGEST_WHOLE = 10**12
MANY, FEW = 10**7, 10**4
"""The most samples, and the most parties, pixels, steps or features, of data that flexray makes up."""
LONGEST = 60
"""Characters of a value that a message repeats."""


def number(
    key: str,
    value: Any,
    *,
    above: float = -math.inf,
    low: float = -math.inf,
    high: float = math.inf,
    below: float = math.inf,
) -> float:
    """Return ``value`` as a finite number above ``above``, within [low, high] and below ``below``.

    Raises:
        ConfigError: It is no number, or out of this range, or beyond :data:`LARGEST`; ``key`` is named.
    """
    expected = _range(above, low, high, below)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value < math.inf:
        raise ConfigError(f"{key}: expected {expected}, got {shown(value)}")
    if not (above < value < below and low <= value <= high):
        raise ConfigError(f"{key}: expected {expected}, got {shown(value)}")
    if abs(value) > LARGEST:
        raise ConfigError(f"{key}: expected {expected}, at most {LARGEST:g}, got {shown(value)}")
    if above == 0 and value < SMALLEST:
        raise ConfigError(f"{key}: expected {expected}, at least {SMALLEST:g}, got {shown(value)}")
    return float(value)


def whole(key: str, value: Any, low: int, high: int = LARGEST_WHOLE) -> int:
    """Return ``value`` as a whole number from ``low`` to ``high``.

    Raises:
        ConfigError: It is none; ``key`` is named.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ConfigError(f"{key}: expected a whole number of at least {low}, got {shown(value)}")
    if value > high:
        raise ConfigError(f"{key}: expected a whole number of at most {high:,}, got {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Return a value as it is typed on the command line, shortened where it is long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names for a message, and dots for the others."""
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def few(names: Sequence[str], most: int) -> str:
    """Return the first names for a message, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _range(above: float, low: float, high: float, below: float) -> str:
    """Return a range in words."""
    if above == 0:
        end = f", up to {high:g}" if high < math.inf else f" and below {below:g}"
        return "a positive number" if high == below == math.inf else f"a number above 0{end}"
    if below < math.inf:
        return f"a number in [{low:g}, {below:g})"
    if high < math.inf:
        return f"a number from {low:g} to {high:g}"
    return f"a number of at least {low:g}" if low > -math.inf else "a number"


Word = TypeVar("Word", bound=str)


def yes_or_no(key: str, value: Any) -> bool:
    """Return true or false, or refuse it by name."""
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: expected true or false, got {shown(value)}")
    return value


def one_of(key: str, value: Any, words: Sequence[Word]) -> Word:
    """Return ``value`` as one of these words, or refuse it by name."""
    for word in words:
        if value == word:
            return word
    raise ConfigError(f"{key}: unknown value {shown(value)}{near_match(str(value), words)}")


def known_keys(above: str, given: Iterable[Any], known: Collection[str], kind: type[UserError] = ConfigError) -> None:
    """Refuse keys that are unknown; ``above`` begins their names in messages."""
    for key in given:
        if key not in known:
            raise kind(f"{above}{key}: unknown key{near_match(str(key), known)}")


def positive(key: str, value: Any) -> float:
    """Return a number above 0."""
    return number(key, value, above=0.0)


def not_negative(key: str, value: Any) -> float:
    """Return a number of at least 0."""
    return number(key, value, low=0.0)


def fraction(key: str, value: Any) -> float:
    """Return a number in [0, 1]."""
    return number(key, value, low=0.0, high=1.0)
