"""One line for each mistake on the command line that Hydra finds, naming the key and the nearest choice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from flexray.config import RunConfig
from flexray.errors import near_match

HYDRA_ERRORS = (HydraException, OmegaConfBaseException)

TYPES = {
    "Integer": "a whole number", "Float": "a number", "Boolean": "true or false", "String": "a word",
}  # fmt: skip


def explain(error: Exception, config_folder: Path) -> str:
    """Return one line that names what was wrong and what was expected."""
    text = str(error).strip()
    if isinstance(error, MissingConfigException):
        return _unknown_choice(text, config_folder)
    if isinstance(error, OverrideParseException):
        return f"{error.override}: {_parse_reason(text)}; expected key=value"
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        return _unknown_key(unknown[1], config_folder)
    return _wrong_value(error)


def _unknown_choice(text: str, folder: Path) -> str:
    found = re.search(r"[Cc]ould not find '([^']+)'", text) or re.search(r"[Cc]annot find [^']*'([^']+)'", text)
    group, _, choice = (found[1] if found else text.splitlines()[0]).rpartition("/")
    choices = [path.stem for path in (folder / group).glob("*.yaml")] if group else []
    return f"{group}: unknown choice '{choice}'{near_match(choice, choices)}"


def _unknown_key(key: str, folder: Path) -> str:
    known = {*known_keys(folder), *(path.name for path in folder.iterdir() if path.is_dir())}
    return f"{key}: unknown key{near_match(key, known) if _is_near(key, known) else ''}"


def _is_near(key: str, known: set[str]) -> bool:
    return "did you mean" in near_match(key, known)


def known_keys(folder: Path) -> set[str]:
    """Return all keys that the schema and the configuration files have."""
    keys = set(_flatten(OmegaConf.structured(RunConfig)))
    for path in folder.glob("*/*.yaml"):
        node = OmegaConf.load(path)
        if not isinstance(node, DictConfig):
            continue
        is_global = path.read_text(encoding="utf-8").startswith("# @package _global_")
        prefix = "" if is_global else f"{path.parent.name}."
        keys.update(prefix + key for key in _flatten(node) if not key.startswith("defaults"))
    return keys


def _flatten(node: DictConfig, prefix: str = "") -> Iterator[str]:
    for key, value in node.items_ex(resolve=False):
        yield f"{prefix}{key}"
        if isinstance(value, DictConfig) and not value._is_none():
            yield from _flatten(value, f"{prefix}{key}.")


def _wrong_value(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OmegaConfBaseException):
            key = cause.full_key or ""
            lines = (cause.msg or str(cause)).splitlines()
            typed = re.match(
                r"Value '(.*)' of type '.*' (?:could not|is not|can't).* (?:converted to|to) (\w+)", lines[0]
            )
            if typed:
                return f"{key}: expected {TYPES.get(typed[2], typed[2])}, got '{typed[1]}'"
            return f"{key}: {lines[0]}" if key and key not in lines[0] else lines[0]
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split())


def _parse_reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[1] if len(lines) > 1 else lines[0]
