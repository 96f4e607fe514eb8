"""From ``_target_`` nodes of the configuration to classes and objects, with errors that name the key."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from flexray.core.checks import shown
from flexray.core.errors import ConfigError, ParticipantError, blame, near_match

Kind = type | tuple[type, ...]


def component(key: str, node: Any, kind: Kind = object, given: Sequence[str] = (), positional: int = 0) -> partial[Any]:
    """Return a call of the node's class with its other keys bound, not made yet.

    Args:
        key: Where the node stands, for messages.
        node: A mapping with ``_target_``: an import path such as ``my_package.MyModel``, or the class itself.
        kind: What the class must be; of a function, only the result is checked, by :func:`make`.
        given: Names of parameters that are filled in later.
        positional: Number of parameters that are filled in later by position.

    Raises:
        ConfigError: There is no such class, or it is of another kind, or takes other arguments.
        flexray.core.errors.ParticipantError: Its module raised while it was imported.
    """
    target, path = _target(key, node)
    if isinstance(target, kind) and not isinstance(target, type) and kind is not object:
        raise ConfigError(f"{key}: expected a class or a function that makes one, got an instance of '{path}'")
    if not callable(target):
        raise ConfigError(f"{key}._target_: expected a class, '{path}' is a {type(target).__name__}")
    if isinstance(target, type) and not issubclass(target, kind):
        raise ConfigError(f"{key}._target_: expected a subclass of {_names(kind)}, got '{path}'")
    if inspect.isabstract(target):
        missing = ", ".join(sorted(target.__abstractmethods__))
        raise ConfigError(f"{key}._target_: '{path}' lacks what every {_names(kind)} defines: {missing}")
    for name in node:
        if not isinstance(name, str):
            raise ConfigError(f"{key}.{name}: expected the name of an argument, got {shown(name)}")
    arguments = {
        name: make(f"{key}.{name}", value) if isinstance(value, Mapping) and "_target_" in value else value
        for name, value in node.items()
        if name != "_target_"
    }
    _check_arguments(key, target, arguments, given, positional)
    return partial(target, **arguments)


def make(key: str, node: Any, kind: Kind = object, *args: Any) -> Any:
    """Build the node's object now; a ValueError of its constructor becomes a message that names the key.

    Where no further arguments are filled in, ``_target_`` may be an instance of ``kind``, which is returned.
    """
    target, path = _target(key, node)
    if isinstance(target, kind) and not isinstance(target, type) and kind is not object and not args:
        for name in node.keys() - {"_target_"}:
            raise ConfigError(f"{key}.{name}: expected no keys beside an instance of '{path}'")
        return target
    call = component(key, node, kind, positional=len(args))
    try:
        with blame(key, "construction"):
            made = call(*args)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}" if "." in key and key not in str(error) else str(error)) from error
    except ParticipantError as error:
        if isinstance(error.__cause__, ValueError | OSError):
            raise ConfigError(f"{key} ({path}): {error.__cause__}") from error
        raise
    if not isinstance(made, kind):
        raise ConfigError(f"{key}._target_: expected a {_names(kind)}, '{path}' made {made!r}")
    return made


def _target(key: str, node: Any) -> tuple[Any, str]:
    """Return what a node's ``_target_`` names or is, and its import path or name."""
    target = node.get("_target_") if isinstance(node, Mapping) else None
    if isinstance(target, str):
        return find(f"{key}._target_", target), target
    if isinstance(target, int | float | list | Mapping | None):  # what a file or a command line may hold
        raise ConfigError(f"{key}: expected a mapping with _target_, an import path, got {shown(node)}")
    named = target if hasattr(target, "__qualname__") else type(target)
    return target, f"{named.__module__}.{named.__qualname__}"


def find(key: str, path: str) -> Any:
    """Import the modules of a dotted path one by one, then follow its attributes."""
    parts = path.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ConfigError(f"{key}: expected an import path such as my_package.MyModel, got '{path}'")
    found: Any = None
    for i, part in enumerate(parts):
        walked, name = ".".join(parts[:i]), ".".join(parts[: i + 1])
        if hasattr(found, part):
            found = getattr(found, part)
        elif _is_module(found, name):
            with blame(key, f"importing {name}"):
                found = importlib.import_module(name)
        elif found is None:
            raise ConfigError(f"{key}: cannot import '{path}': there is no module '{part}' here or installed")
        else:
            public = [name for name in dir(found) if not name.startswith("_")]
            raise ConfigError(f"{key}: '{walked}' has no '{part}'{near_match(part, public, list_all=False)}")
    return found


def _is_module(parent: Any, name: str) -> bool:
    """Whether ``name`` can be imported as a module: at the top (``parent`` None) or in the package ``parent``."""
    if parent is not None and not (isinstance(parent, ModuleType) and hasattr(parent, "__path__")):
        return False
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _names(kind: Kind) -> str:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(f"{k.__module__}.{k.__qualname__}" for k in kinds)


def _check_arguments(
    key: str, target: Any, arguments: Mapping[str, Any], given: Sequence[str], positional: int
) -> None:
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):  # some classes written in C have none
        return
    name_of_target = getattr(target, "__name__", repr(target))
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in arguments:
        if name not in parameters and not takes_any:
            raise ConfigError(f"{key}.{name}: unknown key of {name_of_target}{near_match(name, parameters)}")
    for name, parameter in list(parameters.items())[positional:]:
        is_required = parameter.default is parameter.empty
        is_required &= parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_required and name not in arguments and name not in given:
            raise ConfigError(f"{key}.{name}: {name_of_target} needs a value for it")
