"""``resume=RUN_FOLDER``: what was typed then, with what is typed now on top, in the same folder.

The configuration is composed anew from the overrides that the run folder recorded; what Hydra itself does (launchers,
logging, plugins) is never taken from there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from flexray.errors import ConfigError, RunFolderError
from flexray.keys import HARMLESS, is_under
from flexray.overrides import FLAGS, key_of
from flexray.typed import read

FREE = (
    *HARMLESS, "rounds", "epochs", "max_time", "stop_at_target", "smoothness", "checkpoint.every", "checkpoint.keep",
    "checkpoint.recover_every",
)  # fmt: skip
"""Keys that may change, since no number up to here depends on them."""


@dataclass(frozen=True)
class Resume:
    """A run that goes on.

    Args:
        folder: Its run folder.
        base_dir: The folder that relative paths start from: where it was begun.
        arguments: The command line that continues it.
        typed: Keys that were typed now.
    """

    folder: Path
    base_dir: Path
    arguments: list[str]
    typed: frozenset[str]


def typed_resume(arguments: Sequence[str]) -> Any:
    """Return the value of ``resume`` on the command line, or None."""
    given = [a for a in arguments if key_of(a) == "resume" and "=" in a]
    return read(given[-1]).value() if given else None


def find_resume(value: Any, arguments: Sequence[str]) -> Resume | None:
    """Return the run that the command line asks to continue by ``value``, or None.

    Raises:
        flexray.errors.UserError: There is no such run, or something typed beside it makes no sense.
    """
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ConfigError(f"resume: expected a run folder, got {value!r}")
    folder = Path(os.path.abspath(Path(value).expanduser()))
    typed = frozenset(key_of(a) for a in arguments if a not in FLAGS)
    if any(a in ("-m", "--multirun") for a in arguments):
        raise ConfigError("resume: expected one run, got -m, a sweep")
    if "hydra.run.dir" in typed:
        raise ConfigError("hydra.run.dir: a resumed run goes on in its own folder; expected no other")
    if not (folder / ".hydra").is_dir():
        raise RunFolderError(f"resume: {folder} is not the folder of a run (it has no .hydra)")
    hydra = load_yaml(folder / ".hydra" / "hydra.yaml")
    saved = _saved_overrides(folder)
    place = os.fspath(folder).replace("\\", "\\\\").replace("'", "\\'")
    merged = [o for o in saved if key_of(o) not in typed] + list(arguments)
    return Resume(
        folder,
        Path(str(OmegaConf.select(hydra, "hydra.runtime.cwd") or ".")),
        [*merged, f"hydra.run.dir='{place}'", "hydra.output_subdir=null"],
        typed,
    )


def _saved_overrides(folder: Path) -> list[str]:
    path = folder / ".hydra" / "overrides.yaml"
    loaded = load_yaml(path)
    if not isinstance(loaded, ListConfig):
        raise RunFolderError(f"{path}: expected a list of overrides")
    saved = [str(item) for item in loaded]
    for item in saved:
        key = key_of(item)
        if item.startswith("-") or "\n" in item or not key or re.search(r"\bhydra\b", key):
            raise RunFolderError(f"{path}: '{item}' is not a key of a run")
    return [item for item in saved if key_of(item) not in ("resume", "trust")]


def load_yaml(path: Path) -> Any:
    """Read a file of a run folder's ``.hydra``; no tags, no objects."""
    try:
        loaded = OmegaConf.load(path)
    except (OSError, YAMLError, OmegaConfBaseException, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    if path.name != "overrides.yaml" and not isinstance(loaded, DictConfig):
        raise RunFolderError(f"{path}: expected a mapping of keys")
    return loaded


def as_json(config: Mapping[str, Any]) -> Any:
    """Return a plain configuration as it is stored in checkpoints."""
    return json.loads(json.dumps(config, default=str))


def check_unchanged(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a configuration that would change the result, naming its keys.

    Raises:
        ConfigError: A key that is not in :data:`FREE` differs.
    """
    old, new = dict(leaves(before)), dict(leaves(as_json(now)))
    changed = changed_keys(before, as_json(now), FREE)
    if changed:
        told = ", ".join(f"{key} (was {old.get(key)!r}, now {new.get(key)!r})" for key in changed[:5])
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise ConfigError(f"resume: these keys would change the result: {told}{more}")


def changed_keys(before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str]) -> list[str]:
    """Return the keys that differ, without those that are ``free`` to."""
    old, new = dict(leaves(before)), dict(leaves(now))
    differing = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return [key for key in differing if not is_under(key, free)]


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a configuration's values with their dotted keys."""
    if isinstance(node, Mapping) and node:
        for name, value in node.items():
            yield from leaves(value, f"{key}.{name}" if key else str(name))
    else:
        yield key, node


def record_configuration(folder: Path, config: DictConfig, overrides: Sequence[str]) -> None:
    """Bring the run folder's ``.hydra`` up to date, so that the next ``resume`` starts from there."""
    kept = [o for o in overrides if key_of(o) not in ("resume", "trust")]
    for name, content in (("config.yaml", config), ("overrides.yaml", OmegaConf.create(kept))):
        path = folder / ".hydra" / name
        temporary = path.with_suffix(".tmp")
        temporary.write_text(OmegaConf.to_yaml(content), encoding="utf-8")
        os.replace(temporary, path)
