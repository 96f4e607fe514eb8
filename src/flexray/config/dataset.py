"""The dataset of a run, from the keys ``dataset.*``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flexray.config.components import make
from flexray.core.checks import shown
from flexray.core.errors import ConfigError
from flexray.data.base import Dataset

BATCH_KEYS = ("batch_size", "replacement", "drop_last")


def build_dataset(config: Mapping[str, Any], base_dir: Path) -> Dataset:
    """Build the dataset; relative paths start from ``base_dir``."""
    node = {key: value for key, value in config["dataset"].items() if key not in BATCH_KEYS}
    dataset: Dataset = make("dataset", started_from(base_dir, node), Dataset)
    return dataset


def started_from(base_dir: Path, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys of the dataset, relative paths among them started from ``base_dir``.

    Raises:
        ConfigError: A path is no text.
    """
    node = dict(keys)
    for key in ("path", "labels_file", "cache", "class_list"):
        if node.get(key) is not None:
            node[key] = absolute(f"dataset.{key}", node[key], base_dir)
    if isinstance(bert := node.get("bert"), str) and (base_dir / Path(bert).expanduser()).is_dir():
        node["bert"] = absolute("dataset.bert", bert, base_dir)
    if isinstance(node.get("files"), Mapping):
        node["files"] = {k: absolute(f"dataset.files.{k}", v, base_dir) for k, v in node["files"].items()}
    return node


def absolute(key: str, path: Any, base_dir: Path) -> str:
    """Return a path that the user gave, started from ``base_dir`` if it is relative."""
    if not isinstance(path, str) or not path:
        raise ConfigError(f"{key}: expected a path, got {shown(path)}")
    return os.fspath(base_dir / Path(path).expanduser())
