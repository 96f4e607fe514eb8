"""``resume``: a run goes on in its folder, and of a command given again only what is missing runs.

``resume=RUN_FOLDER`` composes the configuration anew from the overrides that the run folder recorded, as far as
:mod:`flexray.config.trust` lets a run folder set them, and those typed now; what Hydra itself does (launchers, logging,
plugins) is never taken from there.

``resume=auto``: a job whose folder holds a completed run of the same configuration is skipped; one that left a
checkpoint goes on from it; any other begins. Jobs of a sweep are known by their configurations, not by their numbers,
which change when an axis grows: a job whose numbered folder belongs to another configuration gets a folder of its own.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from flexray.config.compose import as_json
from flexray.config.overrides import FLAGS
from flexray.config.schema import settle
from flexray.config.trust import check_overrides
from flexray.config.typed import key_of, quoted, swept_keys, typed_value
from flexray.core import runfolder
from flexray.core.errors import ConfigError, RunFolderError
from flexray.core.neutral import HARMLESS, is_under
from flexray.core.runfolder import check_files, inner, leaves, natural, own_folder, read_json, read_text, read_yaml
from flexray.run.save.storage import replace_text

FREE = (
    *HARMLESS, "rounds", "epochs", "max_time", "stop_at_target", "smoothness", "checkpoint.every", "checkpoint.keep",
    "checkpoint.recover_every",
)  # fmt: skip
"""Keys that may change, as no number until now depends on them."""
SINCE = {
    "stack": "exact", "learn": True, "network.jitter": 0.0, "network.loss": 0.0, "network.trace.advance": "round",
    "network.trace.at_end": "wrap", "network.error_feedback": False, "absence.sample": None,
    "dataset.cut": "columns", "dataset.alpha": 1.0, "dataset.beta": 0.5, "dataset.cut_seed": 0,
    "missing.fraction": 0.0, "missing.stand_in": "zeros",
}  # fmt: skip
"""Keys that records of older versions lack, and what they would have said, unless that is null."""
AUTO = "auto"
ALIKE = ("progress", "resume", "trust")
"""Keys in which jobs of a sweep may differ and be the same job."""

log = logging.getLogger("flexray")


@dataclass(frozen=True)
class Resume:
    """A run that goes on.

    Args:
        folder: Its run folder.
        base_dir: The folder that relative paths start from: that in which the run was begun.
        arguments: The command line that continues it.
    """

    folder: Path
    base_dir: Path
    arguments: list[str]


def find_resume(value: Any, arguments: Sequence[str], again: Collection[str] = ()) -> Resume | None:
    """Return the run that the command line asks to continue by ``value``, or None.

    Args:
        value: The run folder.
        arguments: The command line.
        again: Keys of Python objects that are given again.

    Raises:
        flexray.core.errors.UserError: There is no such run, another override contradicts it, or the run folder holds
            what it may not.
    """
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ConfigError(f"resume: expected a run folder, got {value!r}")
    folder = Path(os.path.realpath(Path(value).expanduser()))
    typed = frozenset(key_of(a) for a in arguments if a not in FLAGS)
    if not {"-m", "--multirun"}.isdisjoint(arguments):
        raise ConfigError("resume: expected one run, got -m, a sweep")
    if "hydra.run.dir" in typed:
        raise ConfigError("hydra.run.dir: a resumed run goes on in its own folder; expected no other")
    if "${" in os.fspath(folder):
        raise ConfigError(f"resume: expected a folder without ${{ in its name, got {folder}")
    if not (folder / runfolder.HYDRA_FOLDER).is_dir():
        raise RunFolderError(f"resume: {folder} is not the folder of a run (it has no .hydra)")
    check_files(folder)
    base_dir = begun_in(folder)
    lines = [line for line in recorded_overrides(folder) if _still_holds(key_of(line), typed)]
    trusted = typed_value(arguments, "trust") is True
    check_overrides(lines, _own_dir(lines, folder, base_dir), trusted, again)
    return Resume(folder, base_dir, [*lines, *arguments, f"hydra.run.dir={quoted(os.fspath(folder))}"])


def _still_holds(key: str, typed: Collection[str]) -> bool:
    """Whether a recorded override still holds beside the keys that are typed now."""
    is_new_cluster = key in ("cluster.kind", "cluster.address") and "cluster" in typed
    return key not in (*typed, "resume", "trust") and not is_new_cluster


def begun_in(folder: Path) -> Path:
    """Return the folder in which a run was begun, where its relative paths start."""
    found = inner(read_yaml(folder / runfolder.HYDRA_YAML), "hydra", "runtime").get("cwd")
    if not isinstance(found, str) or "\0" in found or any(len(part) > 255 for part in Path(found).parts):
        raise RunFolderError(
            f"{folder / runfolder.HYDRA_YAML}: hydra.runtime.cwd: expected a folder, got {str(found)[:60]!r}"
        )
    return Path(found)


def recorded_choices(folder: Path) -> dict[str, Any]:
    """Return the choice of every group with which a run was begun."""
    return inner(read_yaml(folder / runfolder.HYDRA_YAML), "hydra", "runtime", "choices")


def recorded_overrides(folder: Path) -> list[str]:
    """Return the overrides with which a run was begun."""
    found = read_yaml(folder / runfolder.OVERRIDES_YAML, list)
    if not all(isinstance(line, str) and line for line in found):
        raise RunFolderError(f"{folder / runfolder.OVERRIDES_YAML}: expected a list of overrides")
    return list(found)


def _own_dir(lines: Sequence[str], folder: Path, base_dir: Path) -> str | None:
    """Return the recorded ``checkpoint.dir`` if it is a folder here in which this very run has checkpoints."""
    given = typed_value([line for line in lines if "${" not in line], "checkpoint.dir")
    address = folder / runfolder.ADDRESS_FILE
    if not isinstance(given, str) or "://" in given or not address.exists():
        return None
    place = base_dir / Path(given).expanduser() / own_folder(folder)
    is_own = read_text(address).strip() == place.name and place.is_dir() and not place.is_symlink()
    return given if is_own else None


def check_unchanged(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a configuration that would change the result, naming its keys.

    Raises:
        ConfigError: A key that is not in :data:`FREE` differs.
    """
    old, new = dict(leaves(before)), dict(leaves(now))
    if changed := changed_keys(before, now, FREE):
        few = ", ".join(f"{key} (was {old.get(key)!r}, now {new.get(key)!r})" for key in changed[:5])
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise ConfigError(f"resume: these keys would change the result: {few}{more}")


def changed_keys(before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str]) -> list[str]:
    """Return the keys that differ, except those that are ``free`` to change."""
    old, new = ({**SINCE, **dict(leaves(config))} for config in (before, now))
    differing = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return [key for key in differing if not is_under(key, free)]


def record(folder: Path, config: DictConfig, overrides: Sequence[str], begins: bool = True) -> None:
    """Write the run folder's ``.hydra``, from which ``resume`` goes on.

    Hydra itself would write it before anything is checked: a refused run would replace the record of a complete one.

    Args:
        folder: The run folder.
        config: The job's configuration.
        overrides: Its command line.
        begins: Write Hydra's own configuration, too; of a run that goes on it still names where the run was begun.
    """
    lines = [line for line in overrides if key_of(line) not in ("resume", "trust")]
    contents: dict[str, Any] = {runfolder.CONFIG_YAML: config, runfolder.OVERRIDES_YAML: OmegaConf.create(lines)}
    if begins:
        contents[runfolder.HYDRA_YAML] = HydraConfig.instance().cfg
    try:
        (folder / runfolder.HYDRA_FOLDER).mkdir(exist_ok=True)
        for name, content in contents.items():
            replace_text(folder / name, OmegaConf.to_yaml(content))
    except OSError as error:
        raise RunFolderError(f"{error.filename}: cannot be written: {error.strerror}") from error


def check_folder_is_fixed(arguments: Sequence[str], sweeping: bool) -> None:
    """Refuse ``resume=auto`` where every command gets a new folder, and a folder that may not be written to.

    Raises:
        ConfigError: The key that fixes it is not among those typed.
        RunFolderError: The folder holds links and the like.
    """
    key = "hydra.sweep.dir" if sweeping else "hydra.run.dir"
    folder = typed_value(arguments, key)
    if isinstance(folder, str) and "${" not in folder:
        check_files(Path(folder))
    if folder is None:
        raise ConfigError(
            f"resume: auto looks for earlier runs in {key}, which is new each time; expected {key}=FOLDER"
        )


def folders_by_configuration(arguments: Sequence[str]) -> list[str]:
    """Return the override with which a sweep asks :func:`job_folder` for folders, unless the user names them."""
    if any(key_of(argument) == "hydra.sweep.subdir" for argument in arguments):
        return []
    limits = ",".join(key for key in swept_keys(arguments) if key in FREE)
    return [f"hydra.sweep.subdir=${{job_folder:{limits}}}"]


def register_job_folder() -> None:
    """Register ``${job_folder:...}``, the name of the folder of a sweep's job."""
    OmegaConf.register_new_resolver("job_folder", job_folder, replace=True)


def job_folder(*swept: str, _root_: DictConfig) -> str:
    """Return the name of a job's folder within that of the sweep.

    Args:
        swept: The limits in which jobs of this sweep differ.
        _root_: The job's whole configuration, Hydra's part included.
    """
    number = str(_root_.hydra.job.num)
    config = as_json(settled(_root_), resolve=False)
    before = dict(_configurations(Path(str(_root_.hydra.sweep.dir))))
    limits = [key for key in FREE if key not in swept]
    if number in before and not changed_keys(before[number], config, limits):
        return number
    same = [name for name, other in before.items() if not changed_keys(other, config, ALIKE)]
    if same or number not in before:
        return same[0] if same else number
    telling = dict(leaves({key: value for key, value in config.items() if key not in ALIKE}))
    return f"{number}-{hashlib.sha256(json.dumps(telling, sort_keys=True).encode()).hexdigest()[:8]}"


def settled(root: DictConfig) -> DictConfig:
    """Return a settled copy of a job's configuration, without Hydra's part."""
    node = copy.deepcopy(root)
    with open_dict(node):
        del node["hydra"]
    settle(node)
    return node


def _configurations(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield name and configuration of every job in a sweep's folder."""
    for path in sorted(folder.iterdir(), key=lambda p: natural(p.name)) if folder.is_dir() else ():
        if not path.is_symlink() and (path / runfolder.CONFIG_YAML).exists():
            try:
                yield path.name, json.loads(json.dumps(read_yaml(path / runfolder.CONFIG_YAML), default=str))
            except RunFolderError as error:
                log.warning("%s: %s", path, error)


def completed_summary(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the summary of the completed run of this configuration in the folder, or None.

    Raises:
        RunFolderError: The completed run in the folder is of another configuration.
    """
    try:
        summary, before = (read_json(folder / name) for name in (runfolder.SUMMARY_FILE, runfolder.CONFIGURATION_FILE))
    except RunFolderError:
        return None  # not there, or torn: the run did not end
    if summary.get("status") != "completed":
        return None
    if changed_keys(before, config, (*HARMLESS, "checkpoint")):
        if changed := changed_keys(before, config, (*FREE, "checkpoint")):
            raise RunFolderError(
                f"{folder}: holds a completed run that differs in {', '.join(changed[:5])}; expected another folder"
            )
        return None  # it goes on to other limits
    return summary
