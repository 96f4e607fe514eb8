"""Values that the user gives once for all, as a list, or by participant.

One rule for every such key (``lr``, ``network.t_comm``, ``speeds.utilization``, ``cluster.cpus_per_party``, ...):

* a number holds for everybody;
* a list has one number per party in order (and, where the server has such a value too, may have the server's last);
* a mapping names participants, by name, by number (1..K) or as ``server``; ``default`` is for those not named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flexray.core.checks import number as number
from flexray.core.checks import shown as shown
from flexray.core.checks import whole as whole
from flexray.core.errors import ConfigError, near_match
from flexray.core.messages import SERVER

Check = Callable[[str, Any], float]


def resolve(
    key: str,
    value: Any,
    names: Sequence[str],
    check: Check,
    defaults: Sequence[float] | None = None,
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
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _from_list(key, value, names, check, defaults)
    return (check(key, value),) * len(names)


def _from_list(
    key: str, value: Sequence[Any], names: Sequence[str], check: Check, defaults: Sequence[float] | None
) -> tuple[float, ...]:
    given = [check(f"{key}[{i}]", item) for i, item in enumerate(value)]
    if len(given) == len(names):
        return tuple(given)
    has_server = names[-1] == SERVER
    if has_server and defaults is not None and len(given) == len(names) - 1:
        return (*given, defaults[-1])
    expected = f"{len(names)} numbers ({', '.join(names)})"
    raise ConfigError(f"{key}: expected one number or {expected}, got {len(given)} of them")


def _from_mapping(
    key: str, value: Mapping[Any, Any], names: Sequence[str], check: Check, defaults: Sequence[float] | None
) -> tuple[float, ...]:
    by_place: dict[int, tuple[Any, Any]] = {}
    for who, item in value.items():
        if who == "default":
            continue
        place = participant(key, who, names)
        if place in by_place:
            raise ConfigError(f"{key}: '{names[place]}' is given twice, as {by_place[place][0]} and {who}")
        by_place[place] = (who, item)
    rest = value.get("default")
    result = []
    for place, name in enumerate(names):
        if place in by_place:
            who, item = by_place[place]
            result.append(check(f"{key}.{who}", item))
        elif rest is not None:
            result.append(check(f"{key}.default", rest))
        elif defaults is not None:
            result.append(defaults[place])
        else:
            raise ConfigError(f"{key}: no number for '{name}'; name it, or give 'default'")
    return tuple(result)


def participant(key: str, who: Any, names: Sequence[str]) -> int:
    """Return the place of a participant that the user named, by name or by number 1..K."""
    if str(who) in names:
        return list(names).index(str(who))
    parties = [name for name in names if name != SERVER]
    if str(who).isdigit() and 1 <= int(who) <= len(parties):
        return int(who) - 1
    raise ConfigError(f"{key}: unknown participant '{who}'{near_match(str(who), [*names, f'1 to {len(parties)}'])}")
