"""Overrides of the command line, read by Hydra's parser before Hydra composes anything: its errors name no key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, Sweep
from hydra.errors import HydraException
from omegaconf import grammar_parser
from omegaconf.errors import GrammarParseError

from flexray.config.schema import config_folder
from flexray.core.checks import shown
from flexray.core.errors import ConfigError, near_match

DEEPEST = 20
"""Most brackets, braces and interpolations in one another; with more of them computations run out of stack."""
MOST = 2**63 - 1
LONGEST = 200
"""Characters of an override that a message repeats."""
WORD = re.compile(r"(?!(null|true|false|inf|nan)$)[a-z_]\w*", re.ASCII | re.IGNORECASE)
"""A text that an override has without quotes."""
NAME = re.compile(r"[\w./+-]+", re.ASCII)
"""A name in braces, where Hydra takes no quotes."""
READABLE = "expected key=value, where a value is a number, a word, [a,b] or {a:1}, quoted for the shell"


def key_of(argument: str) -> str:
    """Return the key of an override, without its signs."""
    return argument.lstrip("+~").partition("=")[0].strip()


def quoted(text: str) -> str:
    """Return a text as a quoted value of an override, where a backslash counts before a quote only."""
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", text)
    ending = len(text) - len(text.rstrip("\\"))
    return f"'{escaped}{text[len(text) - ending :]}'"


def literal(key: str, value: Any) -> str:
    """Return a plain Python value as the value of an override, which :func:`read` turns into the same again.

    Args:
        key: The key, for messages.
        value: None, a truth value, a number, a text, or a list or mapping of these.

    Example:
        >>> literal("lr", {"left": 0.1, "default": [1, None, "two words"]})
        "{left:0.1,default:[1,null,'two words']}"

    Raises:
        ConfigError: It is something else, or a name in a mapping has signs that Hydra does not take there.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str):
        return value if WORD.fullmatch(value) else quoted(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(literal(key, item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{_name(key, name)}:{literal(key, item)}' for name, item in value.items())}}}"
    raise ConfigError(f"{key}: expected a number, a text, a list or a mapping, got a {type(value).__name__}")


def _name(key: str, name: Any) -> str:
    text = name if isinstance(name, str) else literal(key, name)
    if not NAME.fullmatch(text):
        raise ConfigError(f"{key}: expected names of letters, digits and _ in a mapping, got {shown(name)}")
    return text


@cache
def parser() -> OverridesParser:
    """Return Hydra's parser of overrides, which looks at the signatures of all its functions when it is made."""
    return OverridesParser.create()


def read(argument: str) -> Override:
    """Return an override as Hydra reads it.

    Raises:
        ConfigError: It cannot be read, is nested too deeply, or has a whole number that 64 bits do not hold.
    """
    key = key_of(argument)
    try:
        override = parser().parse_override(argument)
        value = override.value()
    except HydraException as error:
        raise ConfigError(f"{argument[:LONGEST]}: {_why_unreadable(argument)}") from error
    except RecursionError as error:
        raise ConfigError(_too_deep(key)) from error
    except ValueError as error:  # Python converts no number of more than 4,300 digits
        raise ConfigError(f"{key}: expected a number of at most {len(str(MOST))} digits, got more") from error
    for item in _alternatives(value):
        if _depth(item) > DEEPEST:
            raise ConfigError(_too_deep(key))
        _check_size(key, item)
    return override


def typed_value(arguments: Iterable[str], key: str) -> Any:
    """Return the value of a key on the command line, or None."""
    given = [argument for argument in arguments if key_of(argument) == key and "=" in argument]
    return read(given[-1]).value() if given else None


def swept_keys(arguments: Iterable[str]) -> list[str]:
    """Return the keys of a command line that have several values for a sweep."""
    overrides = [argument for argument in arguments if argument[:1] != "-" and "=" in argument]
    return [key_of(argument) for argument in overrides if read(argument).is_sweep_override()]


def _alternatives(value: Any) -> Iterator[Any]:
    """Yield the values of a sweep, as far as they are listed; any other value itself."""
    if isinstance(value, ChoiceSweep):
        yield from value.list
    elif not isinstance(value, Sweep):
        yield value


def check_choice(override: Override) -> None:
    """Refuse a value that cannot name a choice, if the key is a group; the message lists the choices."""
    group = override.key_or_group
    if override.is_delete() or not (config_folder() / group).is_dir():
        return
    for value in _alternatives(override.value()):
        names = value if isinstance(value, list) else [value]
        if not isinstance(value, dict) and not all(isinstance(name, str) and "${" not in name for name in names):
            raise ConfigError(f"{group}: unknown choice '{shown(value)}'{near_match(shown(value), choices_of(group))}")


def choices_of(group: str) -> list[str]:
    """Return the names of a group's choices; none if there is no such group."""
    return sorted(path.stem for path in (config_folder() / group).glob("*.yaml")) if group else []


def _depth(value: Any) -> int:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return value.count("${") if isinstance(value, str) else 0


def _check_size(key: str, value: Any) -> None:
    if isinstance(value, Sweep):
        raise ConfigError(f"{key}: a sweep within a list or mapping; expected it in place of the whole value")
    if isinstance(value, str) and "${" in value:
        try:
            grammar_parser.parse(value)
        except GrammarParseError as error:
            raise ConfigError(f"{key}: cannot be read: {value[:LONGEST]}; expected ${{...}} to name a key") from error
    if isinstance(value, int) and abs(value) > MOST:
        raise ConfigError(f"{key}: expected a number of at most {MOST}, got {shown(value)}")
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name is None:
                raise ConfigError(f"{key}: expected names in braces, got null")
            _check_size(key, name)
            _check_size(f"{key}.{name}", item)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            _check_size(f"{key}[{place}]", item)


def _too_deep(key: str) -> str:
    return f"{key[:LONGEST]}: nested too deeply; expected at most {DEEPEST} brackets in one another"


def _why_unreadable(argument: str) -> str:
    if "=" not in argument:
        return "expected key=value"
    strange = re.search(r"[^][{}(),:=\s]*[^\x00-\x7f][^][{}(),:=\s]*", argument)
    if strange is not None and not {"'", '"'} & set(argument):
        return (
            f"cannot be read; expected words of other letters than a to z in quotes, '{strange[0]}', then the shell's"
        )
    return f"cannot be read; {READABLE}"
