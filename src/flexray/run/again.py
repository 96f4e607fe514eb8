"""``resume=auto``: of a command given again, only what is missing runs.

A job whose folder holds a completed run of the same configuration is skipped; one that left a checkpoint goes on from
it; any other begins. Jobs of a sweep are known by their configurations, not by their numbers, which change when an axis
grows: a job whose numbered folder belongs to another configuration gets a folder of its own.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from flexray.config.compose import as_json
from flexray.config.schema import settle
from flexray.config.typed import key_of, swept_keys, typed_value
from flexray.core.errors import ConfigError, RunFolderError
from flexray.core.neutral import HARMLESS
from flexray.core.runfolder import (
    CONFIG_YAML,
    CONFIGURATION_FILE,
    SUMMARY_FILE,
    check_files,
    natural,
    read_json,
    read_yaml,
)
from flexray.run.resume import FREE, changed_keys, leaves

AUTO = "auto"
ALIKE = ("progress", "resume", "trust")
"""Keys in which jobs of a sweep may differ and be the same job."""

log = logging.getLogger("flexray")


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
    node = copy.deepcopy(_root_)
    with open_dict(node):
        del node["hydra"]
    settle(node)
    config = as_json(node, resolve=False)
    before = dict(_configurations(Path(str(_root_.hydra.sweep.dir))))
    limits = [key for key in FREE if key not in swept]
    if number in before and not changed_keys(before[number], config, limits):
        return number
    same = [name for name, other in before.items() if not changed_keys(other, config, ALIKE)]
    if same or number not in before:
        return same[0] if same else number
    telling = dict(leaves({key: value for key, value in config.items() if key not in ALIKE}))
    return f"{number}-{hashlib.sha256(json.dumps(telling, sort_keys=True).encode()).hexdigest()[:8]}"


def _configurations(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield name and configuration of every job in a sweep's folder."""
    for path in sorted(folder.iterdir(), key=lambda p: natural(p.name)) if folder.is_dir() else ():
        if not path.is_symlink() and (path / CONFIG_YAML).exists():
            try:
                yield path.name, json.loads(json.dumps(read_yaml(path / CONFIG_YAML), default=str))
            except RunFolderError as error:
                log.warning("%s: %s", path, error)


def completed_summary(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the summary of the completed run of this configuration in the folder, or None.

    Raises:
        RunFolderError: The completed run in the folder is of another configuration.
    """
    try:
        summary, before = (read_json(folder / name) for name in (SUMMARY_FILE, CONFIGURATION_FILE))
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
