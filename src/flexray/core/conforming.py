"""Whether saved values have the types of what a run saves, and no negative counts."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from flexray.core.errors import FlexrayError, RunFolderError

LARGEST = 1 << 53
"""The largest count of a run."""


def conforms(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, in all its parts.

    Args:
        value: As it came from JSON, or out of a :class:`flexray.engine.parties.state.Codec`.
        kind: ``int`` (none below 0), ``float`` (any number), ``bool``, ``str``, ``None``, ``Any``, ``list[X]``,
            ``dict[str, X]``, ``tuple[...]``, ``X | Y``, ``Literal``, a dataclass, a named tuple, a mapping from keys to
            kinds, or a tuple of kinds, any of which will do.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if kind is None or kind is types.NoneType:
        return value is None
    if isinstance(kind, tuple) or origin in (Union, types.UnionType):
        return any(conforms(value, part) for part in (parts or kind))
    if origin is Literal:
        return value in parts
    if kind is int:
        return type(value) is int and 0 <= value <= LARGEST
    if kind is float:
        return isinstance(value, float) or (type(value) is int and abs(value) <= LARGEST)
    if isinstance(kind, Mapping):
        return (
            isinstance(value, dict) and value.keys() == kind.keys() and all(conforms(value[k], kind[k]) for k in kind)
        )
    if origin is list:
        return isinstance(value, list) and all(conforms(item, parts[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(isinstance(k, str) and conforms(v, parts[1]) for k, v in value.items())
    if origin is tuple:
        kinds = [parts[0]] * len(value) if isinstance(value, tuple) and parts[-1] is ... else parts
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(conforms, value, kinds))
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return isinstance(value, kind) and all(conforms(getattr(value, name), hint) for name, hint in hints.items())
    return isinstance(value, kind)


@contextmanager
def as_it_was_saved(what: str) -> Iterator[None]:
    """Raise one line that says what is saved wrongly, for wrong keys, shapes or types."""
    try:
        yield
    except FlexrayError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise RunFolderError(f"{what}: what is saved of it does not fit this run: {reason[:300]}") from error
