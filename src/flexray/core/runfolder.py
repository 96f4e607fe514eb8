"""Reads files of run folders from anybody: text only, limited in size and depth, never executed.

``resume``, ``predict``, ``speeds=replay`` and ``report`` read run folders by this module only. YAML is read by the safe
loader, without interpolations or instances; links, pipes and devices are refused before they are opened.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

from flexray.core.errors import RunFolderError

MAX_BYTES = 1 << 30
MAX_CONFIG_BYTES = 4 << 20
MAX_JSON_BYTES = 64 << 20
MAX_DEPTH = 60
MAX_EVENTS = 200_000
MAX_DIGITS = 100
"""Longest plain number in YAML, in characters; those in base 60, as 1:30, take quadratic time to read."""
NUMBER = re.compile(r"[-+.]?[0-9][0-9a-zA-Z_:.+-]*")

ROUNDS_FILE, EVALS_FILE, TIMELINE_FILE, SUMMARY_FILE = "rounds.csv", "evals.csv", "timeline.json", "summary.json"
CONFIGURATION_FILE, LOG_FILE = "configuration.json", "run.log"
"""The first is written after the summary, which belongs to it; it is deleted when a run goes on in the folder."""
HYDRA_FOLDER = ".hydra"
CONFIG_YAML, HYDRA_YAML, OVERRIDES_YAML = ".hydra/config.yaml", ".hydra/hydra.yaml", ".hydra/overrides.yaml"
CHECKPOINT_FOLDER, MODEL_FOLDER, ADDRESS_FILE = "checkpoints", "checkpoints/final", "checkpoints/address.txt"
TENSORBOARD_FOLDER, WANDB_FOLDER = "tensorboard", "wandb"
DATA_FOLDER = "data"
"""Tables and arrays that were given in Python in place of files."""

FILES = (ROUNDS_FILE, EVALS_FILE, TIMELINE_FILE, SUMMARY_FILE, CONFIGURATION_FILE, LOG_FILE, "multirun.yaml")
FOLDERS = (HYDRA_FOLDER, CHECKPOINT_FOLDER, MODEL_FOLDER, TENSORBOARD_FOLDER, WANDB_FOLDER)
"""The files and folders of a run folder."""

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _SafeTextLoader(_SafeLoader):  # type: ignore[misc]
    """Reads dates as text, like a configuration."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
    }


def check_files(folder: Path, writes: bool = True) -> None:
    """Refuse all but plain files and folders where a run reads or writes: links, pipes, devices.

    Args:
        folder: The run folder.
        writes: Whether a run begins or goes on there.

    Raises:
        RunFolderError: One is something else, or cannot be written.
    """
    for name in FILES:
        _check_kind(folder, folder / name, stat.S_ISREG, writes)
    for name in FOLDERS:
        if _check_kind(folder, folder / name, stat.S_ISDIR, writes):
            for path in sorted((folder / name).iterdir()):
                # wandb links to its latest run
                is_own = name == WANDB_FOLDER and path.resolve().is_relative_to(folder.resolve())
                if path != folder / MODEL_FOLDER and not is_own:
                    _check_kind(folder, path, _is_plain if name == TENSORBOARD_FOLDER else stat.S_ISREG, writes)


def _check_kind(folder: Path, path: Path, fits: Callable[[int], bool], writes: bool) -> bool:
    """Return whether the path exists; refuse one of another kind, or that cannot be written."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror}; expected a run folder") from error
    told = f"{path}: cannot be {'written' if writes else 'read'}: "
    expected = "folder" if fits is stat.S_ISDIR else "file"
    if stat.S_ISDIR(mode) and not fits(mode):
        raise RunFolderError(f"{told}Is a directory")
    if not fits(mode):
        kind = "is a link" if stat.S_ISLNK(mode) else f"is no plain {expected}"
        raise RunFolderError(f"{told}{kind}; expected a {expected} of the run folder {folder} itself")
    if writes and not os.access(path, os.W_OK):
        raise RunFolderError(f"{told}Permission denied; expected a {expected} that a run can begin or go on in")
    return True


def _is_plain(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Return a plain file's content; links are refused, and so are pipes, without waiting.

    Raises:
        RunFolderError: It is missing, no plain file, or larger than ``limit`` bytes.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise RunFolderError(f"{path.name}: is no plain file")
            if found.st_size > limit:
                raise RunFolderError(f"{path.name}: is larger than {limit >> 20} MiB")
            return file.read()
    except FileNotFoundError as error:
        raise RunFolderError(f"{path.name}: no such file") from error
    except OSError as error:
        if path.is_symlink() or not path.is_file():
            raise RunFolderError(f"{path.name}: is no plain file") from error
        raise RunFolderError(f"{path.name}: cannot be read: {error.strerror}") from error


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """Return a plain file's text.

    Raises:
        RunFolderError: It is missing, no plain file, not UTF-8, or larger than ``limit`` bytes.
    """
    try:
        return read_bytes(path, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RunFolderError(f"{path.name}: cannot be read: is not UTF-8 text ({error.reason})") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON file's object.

    Raises:
        RunFolderError: It cannot be read, or holds something else.
    """
    return parse_json(path.name, read_text(path, MAX_JSON_BYTES))


def parse_json(name: str, text: str) -> dict[str, Any]:
    """Return the JSON object in a file's text.

    Raises:
        RunFolderError: It holds something else, or nests deeper than a run's files.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{name}: is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise RunFolderError(f"{name}: expected a JSON object, got {type(content).__name__}")
    level: list[Any] = [content]
    for _ in range(MAX_DEPTH):
        level = [part for node in level for part in (node.values() if isinstance(node, dict) else node)]
        level = [part for part in level if isinstance(part, (dict, list))]
    if level:
        raise RunFolderError(f"{name}: is not valid JSON: expected at most {MAX_DEPTH} levels")
    return content


def read_yaml(path: Path, kind: type = dict) -> Any:
    """Return a YAML file's mapping, or list, as plain Python objects; interpolations stay text.

    Raises:
        RunFolderError: It cannot be read, or holds something else than plain data.
    """
    text = read_text(path, MAX_CONFIG_BYTES)
    try:
        _check_events(path.name, text)
        content = yaml.load(text, Loader=_SafeTextLoader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, RunFolderError):
            raise
        reason = " ".join(str(error).split())[:200]
        raise RunFolderError(f"{path.name}: is not plain YAML: {reason}") from error
    if not isinstance(content, kind):
        expected = "a mapping" if kind is dict else "a list"
        raise RunFolderError(f"{path.name}: expected {expected}, got {type(content).__name__}")
    return content


def _check_events(name: str, text: str) -> None:
    """Refuse YAML with tags, references or endless numbers, or larger or deeper than a configuration."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_SafeLoader)):
        if count > MAX_EVENTS:
            raise RunFolderError(f"{name}: expected a configuration of at most {MAX_EVENTS} keys and values")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_DIGITS and NUMBER.fullmatch(event.value):
            raise RunFolderError(f"{name}: is not plain YAML: expected a number of at most {MAX_DIGITS} characters")
        if getattr(event, "tag", None) is not None:
            raise RunFolderError(f"{name}: is not plain YAML: expected no tag, got '{event.tag[:60]}'")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            raise RunFolderError(f"{name}: expected a configuration of at most {MAX_DEPTH} levels, without references")


def read_table(path: Path, unfinished: bool) -> dict[str, list[str]]:
    """Return the columns of a CSV file as text.

    Args:
        path: The file.
        unfinished: Whether its run may still write it; an incomplete last line is left out.

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


def parse_list(text: str) -> list[Any] | None:
    """Return the list that a JSON text holds, as in a cell of ``rounds.csv``; None if it holds none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, list) else None


def inner(node: Any, *names: str) -> dict[str, Any]:
    """Return the mapping at these keys, one below the other; empty if there is none."""
    for name in names:
        node = node.get(name) if isinstance(node, dict) else None
    return dict(node) if isinstance(node, dict) else {}


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a configuration's values with their dotted keys; lists are values."""
    if isinstance(node, Mapping) and node:
        for name, value in node.items():
            yield from leaves(value, f"{key}.{name}" if key else str(name))
    else:
        yield key, node


def flatten(tree: Any) -> dict[str, Any]:
    """Return a configuration's values under dotted keys, lists as text."""
    return {key: _plain(value) for key, value in leaves(tree)}


def _plain(value: Any) -> Any:
    """Return a number, a truth value or None as it is, anything else as text."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_plain(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(str(_plain(v)) for v in value) + "]"
    return value if isinstance(value, (bool, int, float, type(None))) else str(value)


def natural(text: str) -> list[Any]:
    """Return a sort key that puts 2 before 10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def own_folder(folder: Path) -> str:
    """Return the name of the checkpoints of the run in ``folder`` at a place for those of several runs."""
    digest = hashlib.sha256(os.fspath(folder.absolute()).encode()).hexdigest()[:8]
    return f"{folder.name}-{digest}"
