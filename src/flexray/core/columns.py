"""Named tuples from columns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Generic, TypeVar

N = TypeVar("N", bound=tuple[Any, ...])


def rows(kind: type[N], *columns: Iterable[Any]) -> list[N]:
    """Return named tuples of a kind from columns, as quickly as plain tuples: for very many parties."""
    return list(map(partial(tuple.__new__, kind), zip(*columns)))  # noqa: B905 - some columns have no end


class Rows(Generic[N]):
    """Makes :func:`rows`, and gives the last ones again while the columns stay the same, as in most rounds.

    Args:
        kind: The named tuple.
        rest: Columns that never change; they may have no end.
    """

    def __init__(self, kind: type[N], *rest: Iterable[Any]) -> None:
        self._kind, self._rest = kind, rest
        self._columns: tuple[Any, ...] = ()
        self._rows: list[N] = []

    def __call__(self, *columns: Any) -> list[N]:
        """Return a new list of named tuples with these columns first."""
        if columns != self._columns:
            self._columns, self._rows = columns, rows(self._kind, *columns, *self._rest)
        return self._rows.copy()
