"""Reads files of run folders that may come from a stranger: text only, limited in size, never executed.

YAML is read by the safe loader, nothing is resolved or instantiated; links to devices and pipes are refused.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import yaml

from flexray.errors import RunFolderError

MAX_BYTES = 1 << 30
MAX_CONFIG_BYTES = 4 << 20
MAX_KEYS = 20_000
MAX_DEPTH = 60

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """Return a regular file's text.

    Raises:
        RunFolderError: It is missing, not a regular file, not UTF-8, or larger than ``limit`` bytes.
    """
    try:
        if not path.is_file():
            raise RunFolderError(
                f"{path.name}: no such file" if not path.exists() else f"{path.name}: is no plain file"
            )
        if path.stat().st_size > limit:
            raise RunFolderError(f"{path.name}: is larger than {limit >> 20} MiB")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"is not UTF-8 text ({error.reason})"
        raise RunFolderError(f"{path.name}: cannot be read: {reason}") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON file's object.

    Raises:
        RunFolderError: It cannot be read, or holds something else.
    """
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, RunFolderError):
            raise
        raise RunFolderError(f"{path.name}: is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise RunFolderError(f"{path.name}: expected a JSON object, got {type(content).__name__}")
    return content


def read_yaml(path: Path) -> dict[str, Any]:
    """Return a YAML file's mapping as plain Python objects; interpolations stay text.

    Raises:
        RunFolderError: It cannot be read, or holds something else than plain data.
    """
    try:
        content = yaml.load(read_text(path, MAX_CONFIG_BYTES), Loader=_SafeLoader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunFolderError(f"{path.name}: is not plain YAML: {reason}") from error
    if not isinstance(content, dict):
        raise RunFolderError(f"{path.name}: expected a mapping, got {type(content).__name__}")
    return content


def read_table(path: Path, unfinished: bool) -> dict[str, list[str]]:
    """Return the columns of a CSV file as text.

    Args:
        path: The file.
        unfinished: Its run may still be writing it: an incomplete last line is left out.

    Raises:
        RunFolderError: It cannot be read, or a row has another length than the header.
    """
    text = read_text(path)
    if unfinished and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise RunFolderError(f"{path.name}: cannot be read as CSV: {error}") from error
    if not rows:
        return {}
    header, *body = rows
    for place, row in enumerate(body):
        if len(row) != len(header):
            raise RunFolderError(f"{path.name}, row {place + 2}: {len(row)} values, expected {len(header)}")
    return {name: [row[place] for row in body] for place, name in enumerate(header)}


def flatten(tree: Any) -> dict[str, Any]:
    """Return a configuration's values under dotted keys; lists are values.

    Raises:
        RunFolderError: It is larger or deeper than a configuration is (YAML aliases can make it endless).
    """
    flat: dict[str, Any] = {}
    budget = [MAX_KEYS]
    _flatten(tree, "", flat, budget, 0)
    return flat


def _flatten(node: Any, prefix: str, flat: dict[str, Any], budget: list[int], depth: int) -> None:
    budget[0] -= 1
    if budget[0] < 0 or depth > MAX_DEPTH:
        raise RunFolderError(f"config.yaml: expected a configuration of at most {MAX_KEYS} keys, {MAX_DEPTH} deep")
    if isinstance(node, dict) and node:
        for key, value in node.items():
            _flatten(value, f"{prefix}.{key}" if prefix else str(key), flat, budget, depth + 1)
    else:
        flat[prefix] = _plain(node, budget, depth)


def _plain(value: Any, budget: list[int], depth: int) -> Any:
    """Return a leaf; a list becomes text, each of its items counted."""
    if not isinstance(value, (list, dict)):
        return value if isinstance(value, (bool, int, float, type(None))) else str(value)
    budget[0] -= len(value)
    if budget[0] < 0 or depth > MAX_DEPTH:
        raise RunFolderError(f"config.yaml: expected a configuration of at most {MAX_KEYS} keys, {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_plain(v, budget, depth + 1)}" for k, v in value.items()) + "}"
    return "[" + ", ".join(str(_plain(v, budget, depth + 1)) for v in value) + "]"


def natural(text: str) -> list[Any]:
    """Return a sort key that puts 2 before 10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]
