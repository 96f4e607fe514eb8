"""A cluster that stays warm between the runs of a ``with`` block."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self

from flexray.config.given import read_keys
from flexray.config.typed import key_of
from flexray.run.places import Places


class Cluster:
    """The processes of a block, which its first run on Ray starts; see :func:`flexray.cluster`."""

    def __init__(self, **keys: Any) -> None:
        kind = keys.pop("kind", "ray" if "address" in keys else None)
        chosen = {} if kind is None else {"cluster": kind}
        self._words = (*read_keys(chosen).words, *read_keys({"cluster": keys}).words)
        self.places = Places()
        self._before: Token[Cluster | None] | None = None

    def __enter__(self) -> Self:
        self._before = CURRENT.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._before is not None:
            CURRENT.reset(self._before)
        self.places.close()

    def words_before(self, words: Sequence[str]) -> list[str]:
        """Return the words of a run with those of this cluster before them, unless it chooses a cluster itself."""
        typed = {key_of(word) for word in words}
        own = [] if "cluster" in typed else [word for word in self._words if key_of(word) not in typed]
        return [*own, *words]


CURRENT: ContextVar[Cluster | None] = ContextVar("flexray.cluster", default=None)
"""The innermost block that is open here."""
