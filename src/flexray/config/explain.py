"""One line for each mistake on the command line that Hydra finds, naming the key and the nearest choice."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from flexray.config.schema import RunConfig, config_folder
from flexray.config.typed import choices_of
from flexray.core.errors import ConfigError, UserError, near_match

HYDRA_ERRORS = (HydraException, OmegaConfBaseException, OSError, ValueError)
"""What Hydra raises when arguments, files or the run folder are at fault; outside of jobs, nothing else raises them."""

TYPES = {"Integer": "a whole number", "Float": "a number", "bool": "true or false", "string": "a word"}
GROWING = ("algo", "dataset", "model", "server", "optimizer")
"""Groups whose keys are the arguments of a class."""
BY_PARTICIPANT = "{NAME:value,default:value}"

# Messages of Hydra and OmegaConf, and their meaning; {0}, {1} are the groups of the pattern.
COMPOSING = (
    (r"Ambiguous value for argument '([^=]+)=(.*)'", "{0}: got several values, {1}; a list is [{1}], a sweep needs -m"),
    (r"Could not append to config\. An item is already at '([^']+)'", "{0}: is there already; expected it without +"),
    (r"Multiple values for ([^.]+)\.", "{0}: is chosen already; expected {0}=choice without +"),
)  # fmt: skip
ASSIGNING = (
    (r"Value '(.*)' of type '.*' could not be converted to (\w+)", "expected {1}, got '{0}'"),
    (r"Value '(.*)' is not a valid (bool)", "expected {1}, got '{0}'"),
    (r"Cannot convert '\w+' to (string): '(.*)'", "expected {0}, got '{1}'"),
    (r"field '.*' is not Optional", "expected a value, got null"),
    (r"Invalid value assigned: (\w+) is not a ListConfig", "expected a list in brackets, got a value of type {0}"),
    (r"Invalid type assigned: .* is not a subclass of .*\. value: (.*)", "expected its keys, as in --help, got '{0}'"),
    (r"\w+ \(DictConfig\) does not support deletion", "cannot be deleted; expected a value"),
    (
        r"Key (\d+) \(int\) is incompatible with \(str\)",
        "expected a name in braces, got a number; outside of braces, parties.{0}.clip_norm=1 will do",
    ),
    (r"Cannot assign (\w+) to Dict", "expected a mapping {{name:value}}, got a value of type {0}"),
)


def explain(error: Exception) -> str:
    """Return one line that names what was wrong and what was expected."""
    if isinstance(error.__cause__, UserError):  # raised by the log of the run folder, which Hydra opens
        return str(error.__cause__)
    text = str(error).strip()
    if isinstance(error, MissingConfigException):
        return _unknown_choice(text)
    if isinstance(error, OSError):
        return f"hydra.run.dir: cannot write the run folder: {error.filename}: {error.strerror}"
    for pattern, meaning in COMPOSING:
        if found := re.search(pattern, text):
            return meaning.format(*found.groups())
    if found := re.search(r"Could not override '([^']+)'|Could not delete from config. '([^']+)'", text):
        return _unknown_key(found[1] or found[2])
    return _wrong_value(error)


@contextmanager
def explained(kinds: tuple[type[Exception], ...] = HYDRA_ERRORS) -> Iterator[None]:
    """Turn what Hydra raises into the one line of a ConfigError."""
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        raise ConfigError(one_line(explain(error))) from error


def place_of(error: BaseException) -> str:
    """Return type and message of an unexpected exception and the line that raised it, as one line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {one_line(str(error))} ({frame.filename}, line {frame.lineno}, in {frame.name})"


def one_line(text: str) -> str:
    """Return the text with its lines joined."""
    return " ".join(line.strip() for line in text.splitlines())


def _unknown_choice(text: str) -> str:
    found = re.search(r"[Cc]ould not find '([^']+)'", text) or re.search(r"[Cc]annot find [^']*'([^']+)'", text)
    group, _, choice = (found[1] if found else text.splitlines()[0]).rpartition("/")
    if not group:
        return one_line(text)  # of --config-name or --config-path
    return f"{group}: unknown choice '{choice}'{near_match(choice, choices_of(group))}"


def _unknown_key(key: str) -> str:
    known = known_keys()
    if key == "experiment":
        return f"experiment: expected +experiment=NAME, with a plus; one of: {', '.join(choices_of(key))}"
    if key in known:
        group = key.partition(".")[0]
        return f"{key}: unknown to the chosen {group}; expected another {group}, or +{key}=value to add the key"
    parent = key.rpartition(".")[0]
    if parent in known and not any(other.startswith(f"{parent}.") for other in known):
        return f"{key}: {parent} is a single key; by participant it is given as {parent}={BY_PARTICIPANT}"
    if parent in GROWING:
        siblings = {other.rpartition(".")[2] for other in known if other.startswith(f"{parent}.")}
        hint = near_match(key.rpartition(".")[2], siblings, list_all=False).replace("'", f"'{parent}.", 1)
        return (
            f"{key}: unknown key{hint or f' of the chosen {parent}; a class of yours is {parent}._target_=mine.Class'}"
        )
    groups = (path.name for path in config_folder().iterdir() if path.is_dir())
    return f"{key}: unknown key{near_match(key, known.union(groups), list_all=False)}"


@cache
def known_keys() -> frozenset[str]:
    """Return all keys that the schema and the configuration files have."""
    folder, keys = config_folder(), set(_flatten(OmegaConf.structured(RunConfig)))
    for path in (folder / "config.yaml", *folder.glob("*/*.yaml")):
        node = OmegaConf.load(path)
        if not isinstance(node, DictConfig):
            continue
        is_global = path.parent == folder or path.read_text(encoding="utf-8").startswith("# @package _global_")
        prefix = "" if is_global else f"{path.parent.name}."
        keys.update(prefix + key for key in _flatten(node) if not key.startswith("defaults"))
    return frozenset(keys)


def _flatten(node: DictConfig, prefix: str = "") -> Iterator[str]:
    for name, value in node.items_ex(resolve=False):
        key = f"{prefix}{name!s}"
        yield key
        if isinstance(value, DictConfig) and not value._is_none() and "default" not in value:  # else by participant
            yield from _flatten(value, f"{key}.")


def _wrong_value(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OmegaConfBaseException):
            key, line = cause.full_key or "", (cause.msg or str(cause)).splitlines()[0]
            for pattern, meaning in ASSIGNING:
                if found := re.match(pattern, line):
                    return f"{key}: {meaning.format(*(TYPES.get(word, word) for word in found.groups()))}"
            return f"{key}: {line}" if key and key not in line else line
        cause = cause.__cause__ or cause.__context__
    return one_line(str(error))
