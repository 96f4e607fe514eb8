"""Values given once for all participants, as a list, or by participant.

One rule for every such key (``lr``, ``network.t_comm``, ``speeds.utilization``, ``cluster.cpus_per_party``, ...):

* a number holds for all participants;
* a list has one number per party in order, and may end with the server's where the server has such a value;
* a mapping names participants, by name, by number (1..K) or as ``server``; ``default`` is for those not named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from flexray.core.checks import whole
from flexray.core.errors import ConfigError, near_match
from flexray.core.messages import SERVER

Check = Callable[[str, Any], float]
Number = TypeVar("Number", int, float)


def resolve(
    key: str, value: Any, names: Sequence[str], check: Check, defaults: Sequence[float] | None = None
) -> tuple[float, ...]:
    """Return one number per name.

    Args:
        key: Key of the configuration, for messages.
        value: What the user gave; None takes ``defaults``.
        names: Participants, in order; ``server`` last if it has such a value.
        check: Refuses bad numbers.
        defaults: For participants that the user did not mention.
    """
    if value is None and defaults is not None:
        return tuple(defaults)
    if isinstance(value, Mapping):
        return _from_mapping(key, value, names, check, defaults)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return (check(key, value),) * len(names)
    given = [check(f"{key}[{i}]", item) for i, item in enumerate(value)]
    if names[-1] == SERVER and defaults is not None and len(given) == len(names) - 1:
        given.append(defaults[-1])
    if len(given) != len(names):
        expected = f"{len(names)} numbers ({', '.join(names)})"
        raise ConfigError(f"{key}: expected one number or {expected}, got {len(given)} of them")
    return tuple(given)


def _from_mapping(
    key: str, value: Mapping[Any, Any], names: Sequence[str], check: Check, defaults: Sequence[float] | None
) -> tuple[float, ...]:
    keys: dict[int, Any] = {}
    for who in value:
        if who != "default":
            place = participant(key, who, names)
            if place in keys:
                raise ConfigError(f"{key}: '{names[place]}' is given twice, as {keys[place]} and {who}")
            keys[place] = who
    result = []
    for place, name in enumerate(names):
        who = keys.get(place, "default")
        if place in keys or value.get("default") is not None:
            result.append(check(f"{key}.{who}", value[who]))
        elif defaults is not None:
            result.append(defaults[place])
        else:
            raise ConfigError(f"{key}: no number for '{name}'; name it, or give 'default'")
    return tuple(result)


def optional(key: str, value: Any, check: Callable[[str, Any], Number]) -> Number | None:
    """Return a number that may be null."""
    return None if value is None else check(key, value)


def count(key: str, value: Any) -> int:
    """Return a whole number of at least 1."""
    return whole(key, value, low=1)


def participant(key: str, who: Any, names: Sequence[str]) -> int:
    """Return the place of a participant that the user named, by name or by number 1..K."""
    if str(who) in names:
        return list(names).index(str(who))
    parties = [name for name in names if name != SERVER]
    if str(who).isdigit() and 1 <= int(who) <= len(parties):
        return int(who) - 1
    raise ConfigError(f"{key}: unknown participant '{who}'{near_match(str(who), [*names, f'1 to {len(parties)}'])}")
