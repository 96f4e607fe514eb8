"""From ``_target_`` nodes of the configuration to classes and objects, with errors that name the key."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

import hydra.utils
from hydra.errors import HydraException

from flexray.errors import ConfigError, FlexrayError, near_match


def component(key: str, node: Any, *given: str, **extra: Any) -> partial[Any]:
    """Return a call of the node's class with its other keys bound, not made yet.

    Args:
        key: Where the node stands, for messages.
        node: A mapping with ``_target_``, an import path such as ``my_package.MyModel``.
        given: Names of parameters that are filled in later.
        extra: Further arguments.
    """
    if not isinstance(node, Mapping) or not isinstance(node.get("_target_"), str):
        raise ConfigError(f"{key}: expected a choice or a mapping with _target_, got {node!r}")
    target = _import(f"{key}._target_", node["_target_"])
    arguments = {name: _nested(f"{key}.{name}", value) for name, value in node.items() if name != "_target_"}
    _check_arguments(key, target, {**arguments, **extra}, given)
    return partial(target, **arguments, **extra)


def make(key: str, node: Any, *args: Any, **extra: Any) -> Any:
    """Build the node's object now; what its constructor refuses becomes an error that names the key."""
    call = component(key, node, **extra)
    try:
        return call(*args)
    except FlexrayError:
        raise
    except (TypeError, ValueError, ImportError, OSError) as error:
        raise ConfigError(f"{key} ({node['_target_']}): {error}") from error


def _import(key: str, path: str) -> Any:
    try:
        found = hydra.utils.get_object(path)
    except (HydraException, ImportError, ValueError, AttributeError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise ConfigError(f"{key}: cannot import '{path}': {reason}") from error
    if not callable(found):
        raise ConfigError(f"{key}: expected a class, '{path}' is a {type(found).__name__}")
    return found


def _nested(key: str, value: Any) -> Any:
    if isinstance(value, Mapping) and "_target_" in value:
        return make(key, value)
    return value


def _check_arguments(key: str, target: Any, arguments: Mapping[str, Any], given: tuple[str, ...]) -> None:
    parameters = inspect.signature(target).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in arguments:
        if name not in parameters:
            raise ConfigError(f"{key}.{name}: unknown key of {target.__name__}{near_match(name, parameters)}")
    for name, parameter in parameters.items():
        optional = parameter.default is not parameter.empty or parameter.kind is parameter.VAR_POSITIONAL
        if given and not optional and name not in arguments and name not in given:
            raise ConfigError(f"{key}.{name}: {target.__name__} needs a value for it")
