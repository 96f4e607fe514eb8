"""What a run folder, which can come from a stranger, may set of all that a command line may.

Allowed are keys of :class:`flexray.config.schema.RunConfig` with numbers, true or false, null, words, and lists and
mappings of these; choices that are in ``conf/``; classes of flexray and torch. Anything else takes effect only if the
user types it again, or ``trust=true``: other classes, addresses, interpolations (``${...}``), a cluster to join, and
files to write elsewhere. What Hydra itself does (``hydra.``, launchers, logging) never comes from a run folder.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, NoReturn

from flexray.config.given import check_not_object
from flexray.config.schema import RunConfig, config_folder
from flexray.config.typed import choices_of, key_of, read
from flexray.core.errors import ConfigError
from flexray.core.runfolder import MAX_DEPTH

OURS = ("flexray.models", "flexray.data", "flexray.algorithms", "flexray.optimizers")
MODULES, OPTIMIZERS = "torch.nn", "torch.optim"
PLACES: dict[str, tuple[tuple[str, ...], str]] = {
    "cluster.kind": (("local", "packed", "inline"), "joining a cluster lets it run code here"),
    "cluster.address": (("auto",), "joining a cluster lets it run code here"),
    "logger.kind": (("none", "tensorboard", "wandb"), "it writes to the current folder"),
    "logger.uri": ((), "it says where a log is sent or written"),
    "dataset.cache": ((), "files are written there"),
    "checkpoint.dir": ((), "files are written there"),
}
"""Keys that say where a run computes or writes: values that a run folder may set, and why it may not set others."""
MAX_LINE, MAX_ALL = 10_000, 40_000
"""Characters of one override and of all; Hydra's parser takes seconds for so many."""
KEY = re.compile(r"[^\W\d]\w*(\.[\w-]+)*")


def check_overrides(
    lines: Sequence[str], own_dir: str | None = None, trusted: bool = False, again: Collection[str] = ()
) -> None:
    """Refuse recorded overrides that a run folder may not set.

    Args:
        lines: The overrides that were not typed again.
        own_dir: A ``checkpoint.dir`` that is allowed, as this run has written there before.
        trusted: Refuse only keys that are none of a run, such as Hydra's own.
        again: Keys of Python objects that are given again.

    Raises:
        ConfigError: It names the key and what to type.
    """
    if sum(map(len, lines)) > MAX_ALL and not trusted:
        _refuse(str(lines[:3]), f"the overrides are longer than {MAX_ALL} characters")
    for line in lines:
        key = key_of(line)
        if not KEY.fullmatch(key) or line[0] == "-" or key.partition(".")[0] not in (*_schema(), "experiment"):
            raise ConfigError(f"{_short(line)}: stands in the run folder and is no key of a run")
        if trusted:
            continue
        value = _value(line)
        if (config_folder() / key).is_dir():
            _check_choice(line, key, value)
        elif key != "checkpoint.dir" or value != own_dir:
            check_value(key, value, again)


def check_config(config: Mapping[str, Any], typed: Collection[str] = ()) -> None:
    """Refuse a recorded configuration, as plain dictionaries and lists, that sets what a run folder may not.

    Raises:
        ConfigError: It names the key, which is neither ``typed`` nor below a typed one.
    """
    for key, value in config.items():
        if key not in _schema():
            raise ConfigError(f"{_short(str(key))}: stands in the run folder and is no key of a run")
        check_value(key, value, typed)


def check_value(key: str, value: Any, typed: Collection[str] = ()) -> None:
    """Refuse a value, or anything in it, that a run folder may not set.

    Raises:
        ConfigError: It names the key and what to type.
    """
    if key in typed:
        return
    if key.count(".") > MAX_DEPTH:
        _refuse(key[:60], f"it is deeper than {MAX_DEPTH} levels")
    name = re.sub(r"(\.\d+)+$", "", key).rpartition(".")[2]
    if name.startswith("_") and name != "_target_":
        _refuse(key, "it is no key of a class")
    if isinstance(value, Mapping):
        for part, inner in value.items():
            _check_word(key, key, str(part))
            check_value(f"{key}.{part}", inner, typed)
    elif isinstance(value, list) and name not in ("_target_", "name"):
        for place, inner in enumerate(value):
            check_value(f"{key}.{place}", inner, typed)
    elif isinstance(value, str):
        _check_word(key, name, value)
    elif value is not None and not isinstance(value, bool | int | float):
        _refuse(f"{key}={value}", "it is neither number, word, list nor mapping")
    elif name in ("_target_", "name") and value is not None:
        _refuse(f"{key}={value}", "it is no name of a class")
    _check_place(f"{key}={value}", key, value)


def _check_place(line: str, key: str, value: Any) -> None:
    harmless, why = PLACES.get(key, ((), ""))
    if why and value is not None and value not in harmless:
        _refuse(line, why)


def _check_word(key: str, name: str, word: str) -> None:
    given = f"{key}={word[:100]}"
    check_not_object(key, word)
    if "${" in word:
        _refuse(given, "an interpolation could read anything here")
    if "://" in word:
        _refuse(given, "an address could lead anywhere")
    if name == "_target_" and not _is_component(word):
        _refuse(given, f"the class is none of {', '.join(OURS)} and {MODULES}")
    if name == "name" and "." in word and not _is_optimizer(word):
        _refuse(given, f"the class is none of {OPTIMIZERS}")


def _check_choice(line: str, group: str, value: Any) -> None:
    choices = choices_of(group)
    for choice in value if isinstance(value, list) else [value]:
        if not (choice is None or (isinstance(choice, str) and choice in choices)):
            _refuse(line, f"it is no choice of flexray's for {group}")
        _check_place(line, f"{group}.kind", choice)


def _value(line: str) -> Any:
    """Return the value of an override; null of one that deletes."""
    if "${" in line:
        _refuse(line, "an interpolation could read anything here")
    if len(line) > MAX_LINE or _nesting(line) > MAX_DEPTH:  # Hydra's parser is slow
        _refuse(line, f"it is longer than {MAX_LINE} characters or deeper than {MAX_DEPTH} brackets")
    try:
        override = read(line)
    except ConfigError:
        _refuse(line, "it cannot be read")
    if override.is_sweep_override() or override.package is not None or override.key_or_group != key_of(line):
        _refuse(line, "it is no single plain value")
    return override.value()


def _nesting(line: str) -> int:
    """Return the greatest depth of brackets."""
    deepest = depth = 0
    for character in line:
        depth += (character in "[{(") - (character in "]})")
        deepest = max(deepest, depth)
    return deepest


def _schema() -> frozenset[str]:
    return frozenset(field.name for field in fields(RunConfig))


def _is_component(path: str) -> bool:
    """Whether a path names, in its own module, a model, optimizer, dataset or algorithm of flexray or torch."""
    from torch import nn  # imported late: a wrong key of a run folder is refused without

    from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm
    from flexray.data.base import Dataset
    from flexray.optimizers import LocalOptimizer

    module = path.rpartition(".")[0]
    if any(_is_within(module, home) for home in OURS) and re.fullmatch(r"[\w.]+", module):
        try:
            importlib.import_module(module)  # nothing but flexray's own
        except ModuleNotFoundError:
            return False
    kinds = (nn.Module, LocalOptimizer, Dataset, RoundAlgorithm, EventAlgorithm)
    return any(_is_class(path, home, kinds) for home in (*OURS, MODULES))


def _is_optimizer(path: str) -> bool:
    from torch.optim import Optimizer

    return _is_class(path, OPTIMIZERS, (Optimizer,))


def _is_class(path: str, home: str, kinds: tuple[type, ...]) -> bool:
    """Whether a path names a class of some kinds that a package has in a module that is imported already."""
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None) if _is_within(module, home) else None
    return isinstance(found, type) and issubclass(found, kinds) and _is_within(found.__module__, home)


def _is_within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def _refuse(given: str, why: str) -> NoReturn:
    raise ConfigError(
        f"{_short(given)}: stands in the run folder, which may not set it, since {why}; type it again if you mean it,"
        " or trust=true if you trust the folder"
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else f"{line[:120]}..."
