"""What a run folder may make this process import: flexray's own and torch's building blocks, unless the user agrees.

A run folder may come from a stranger. Its configuration names classes by import path (``_target_``), and a path such as
``subprocess.Popen`` would do anything at all. So whatever stands in a run folder is limited to the classes below,
unless the same key was typed on the command line, or ``trust=true``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from torch import nn

from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm
from flexray.components import find
from flexray.data.base import Dataset
from flexray.errors import ConfigError
from flexray.optimizers import LocalOptimizer, TorchOptimizer

PACKAGES = ("flexray.models", "flexray.data", "flexray.algorithms", "flexray.optimizers", "torch.nn", "torch.optim")
KINDS = (nn.Module, LocalOptimizer, Dataset, RoundAlgorithm, EventAlgorithm)
TORCH_OPTIMIZER = f"{TorchOptimizer.__module__}.{TorchOptimizer.__name__}"


def check_targets(config: Mapping[str, Any], typed: Collection[str] = ()) -> None:
    """Refuse import paths of a run folder that lead elsewhere.

    Args:
        config: The configuration as plain dictionaries and lists.
        typed: Keys that the user typed, and thereby agreed to.

    Raises:
        ConfigError: A path leads to something else than a model, optimizer, dataset or algorithm of these packages.
    """
    for key, node in _nodes(config, ""):
        path = node["_target_"]
        if f"{key}._target_" not in typed and not _is_harmless(f"{key}._target_", path):
            raise ConfigError(_refusal(f"{key}._target_", path))
        name = str(node.get("name", ""))
        imports = path == TORCH_OPTIMIZER and "." in name and not name.startswith("torch.optim.")
        if imports and f"{key}.name" not in typed:
            raise ConfigError(_refusal(f"{key}.name", name))


def _refusal(key: str, path: Any) -> str:
    return (
        f"{key}: '{path}' stands in the run folder and is no class of {', '.join(PACKAGES)}; if you trust the folder,"
        " add trust=true"
    )


def _is_harmless(key: str, path: Any) -> bool:
    if not isinstance(path, str) or not _is_within(path):
        return False
    found = find(key, path)  # imports nothing but these packages
    return isinstance(found, type) and issubclass(found, KINDS) and _is_within(f"{found.__module__}.")


def _is_within(path: str) -> bool:
    return any(path.startswith(f"{package}.") for package in PACKAGES)


def _nodes(node: Any, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every mapping with a ``_target_`` and its key."""
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield key, node
        for name, value in node.items():
            yield from _nodes(value, f"{key}.{name}" if key else str(name))
    elif isinstance(node, list):
        for place, value in enumerate(node):
            yield from _nodes(value, f"{key}.{place}")
