"""The runs of a sweep: all combinations of a grid's values, or what a list says, each with every seed."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from flexray.config.given import Given, read_keys
from flexray.config.typed import key_of
from flexray.core.errors import ConfigError

Words: TypeAlias = Sequence[str]
Grid: TypeAlias = Mapping[str, Any] | Sequence[Words | Mapping[str, Any]]
"""Values by key, or what differs from run to run."""


@dataclass(frozen=True)
class Entry:
    """One run of a sweep.

    Args:
        given: All its keys but the seed.
        seed: Its seed.
    """

    given: Given
    seed: int

    @property
    def words(self) -> tuple[str, ...]:
        """All its words."""
        return (*self.given.words, f"seed={self.seed}")


def entries(grid: Grid, seeds: int | Iterable[int], keys: Mapping[str, Any], unless: str = "") -> list[Entry]:
    """Return the runs of a sweep, the seeds of each setting one after another.

    Args:
        grid: Values by key, of which all combinations run; or a list with the words, or the keys, of each run.
        seeds: The seeds, or how many: the first are 1, 2, ...
        keys: What all runs share.
        unless: A choice, such as ``cluster=inline``, for runs that make none in its group.

    Raises:
        ConfigError: Something is given twice, is empty, or is of another kind.
    """
    numbers = _seeds(seeds)
    if "seed" in keys:
        raise ConfigError(f"seed: expected seeds=[{keys['seed']}]")
    shared = read_keys(keys)
    given = [_joined(shared, own, unless) for own in _settings(grid, keys)]
    return [Entry(setting, seed) for setting in given for seed in numbers]


def swept_by(grid: Grid) -> list[str]:
    """Return the keys in which the runs of a sweep differ, but the seed."""
    if isinstance(grid, Mapping):
        return list(map(str, grid))
    names = (list(own) if isinstance(own, Mapping) else map(key_of, _words(own)) for own in grid)
    return list(dict.fromkeys(str(name) for found in names for name in found))


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    wrong = ConfigError(f"seeds: expected how many, or a list of whole numbers, got {seeds!r}")
    if isinstance(seeds, bool | str):
        raise wrong
    try:
        numbers = range(1, seeds + 1) if isinstance(seeds, int) else list(map(operator.index, seeds))
    except TypeError:
        raise wrong from None
    if not numbers:
        raise wrong
    return list(numbers)


def _settings(grid: Grid, keys: Mapping[str, Any]) -> Iterator[Given]:
    if isinstance(grid, Mapping):
        axes = [[(str(key), value) for value in _values(str(key), values)] for key, values in grid.items()]
        for key in grid:
            if key == "seed" or key in keys:
                raise ConfigError(f"{key}: {'expected seeds=[...]' if key == 'seed' else 'is in the grid, too'}")
        yield from (read_keys(dict(chosen)) for chosen in itertools.product(*axes))
    elif isinstance(grid, str) or not isinstance(grid, Iterable):
        raise ConfigError(f"grid: expected values by key, or a list of words for each run, got {grid!r}")
    else:
        settings = [read_keys(own) if isinstance(own, Mapping) else Given(tuple(_words(own))) for own in grid]
        if not settings:
            raise ConfigError("grid: expected at least one run, got none")
        yield from settings


def _values(key: str, values: Any) -> list[Any]:
    """Return the values of an axis; a single one is an axis, too."""
    several = isinstance(values, list | tuple | range) or getattr(values, "ndim", None) == 1
    found = list(values) if several else [values]
    if not found:
        raise ConfigError(f"{key}: expected values to go through, got none")
    return found


def _words(own: Any) -> list[str]:
    words = [own] if isinstance(own, str) else own
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise ConfigError(f"grid: expected a list of words for each run, such as ['algo=flex', 'lr=0.1'], got {own!r}")
    if any(key_of(word) == "seed" for word in words):
        raise ConfigError("seed: expected seeds=[...]")
    return list(words)


def _joined(shared: Given, own: Given, unless: str) -> Given:
    words = (*shared.words, *own.words)
    group = key_of(unless)
    chooses = {key_of(word) for word in words} & {group, f"{group}.kind"}
    before = () if chooses or not unless else (unless,)
    return Given((*before, *words), {**shared.objects, **own.objects}, {**shared.data, **own.data})
