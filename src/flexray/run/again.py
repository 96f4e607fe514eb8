"""``resume=auto``: of a command given again, only what is missing runs.

A job whose folder holds a completed run of the same configuration is skipped; one that left a checkpoint goes on from
it; any other begins. Jobs of a sweep are known by their configurations, not by their numbers, which change when an axis
grows: a job whose number another configuration has got a folder for begins in one of its own.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict

from flexray.config.overrides import key_of
from flexray.config.schema import settle
from flexray.core.errors import ConfigError, RunFolderError, UserError
from flexray.core.neutral import HARMLESS
from flexray.core.runfolder import check_files, natural, read_json, read_yaml
from flexray.run.resume import FREE, as_json, changed_keys, leaves, typed_value

if TYPE_CHECKING:
    from flexray.config.job import Job
    from flexray.run.save.checkpoint import Checkpoint

AUTO = "auto"
CONFIGURATION = "configuration.json"
UNTOLD = ("progress", "resume", "trust")
"""Keys that do not tell one job of a sweep from another."""

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
    """Return what makes a sweep ask :func:`job_folder` for every job's folder, unless the user names folders."""
    if any(key_of(argument) == "hydra.sweep.subdir" for argument in arguments):
        return []
    swept = []
    for argument in arguments:
        try:
            override = OverridesParser.create().parse_override(argument)
        except HydraException:  # a flag, or what Hydra itself will explain
            continue
        swept += [override.key_or_group] if override.is_sweep_override() else []
    return [f"hydra.sweep.subdir=${{job_folder:{','.join(key for key in swept if key in FREE)}}}"]


def register_job_folder() -> None:
    """Make known ``${job_folder:...}``, which names the folder of a sweep's job."""
    OmegaConf.register_new_resolver("job_folder", _job_folder, replace=True)


def _job_folder(*swept: str, _root_: DictConfig) -> str:
    return job_folder(_root_, swept)


def job_folder(root: DictConfig, swept: Collection[str]) -> str:
    """Return the name of the folder, in that of the sweep, of the job with this configuration.

    Args:
        root: The job's whole configuration, Hydra's part included.
        swept: Those limits that tell jobs of this sweep apart.
    """
    number = str(root.hydra.job.num)
    node = copy.deepcopy(root)
    with open_dict(node):
        del node["hydra"]
    settle(node)
    config = as_json(cast("dict[str, Any]", OmegaConf.to_container(node, resolve=False)))
    before = dict(_configurations(Path(str(root.hydra.sweep.dir))))
    limits = [key for key in FREE if key not in swept]
    if number in before and not changed_keys(before[number], config, limits):
        return number
    same = [name for name, other in before.items() if not changed_keys(other, config, UNTOLD)]
    if same or number not in before:
        return same[0] if same else number
    kept = dict(leaves({key: value for key, value in config.items() if key not in UNTOLD}))
    return f"{number}-{hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:8]}"


def _configurations(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the jobs that a sweep's folder holds, and what each is or was to run."""
    for path in sorted(folder.iterdir(), key=lambda p: natural(p.name)) if folder.is_dir() else ():
        if not path.is_symlink() and (path / ".hydra" / "config.yaml").exists():
            try:
                yield path.name, as_json(read_yaml(path / ".hydra" / "config.yaml"))
            except RunFolderError as error:
                log.warning("%s: %s", path, error)


def forget(folder: Path) -> None:
    """Note that a run begins or goes on in the folder: what it holds is not complete from now on."""
    (folder / CONFIGURATION).unlink(missing_ok=True)


def remember(folder: Path, config: Mapping[str, Any]) -> None:
    """Note which configuration the folder's summary belongs to; Hydra's own record is renewed before a job begins."""
    (folder / CONFIGURATION).write_text(json.dumps(as_json(config)), encoding="utf-8")


def completed_summary(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the summary of the completed run of this configuration in the folder, or None.

    Raises:
        RunFolderError: The completed run in the folder is of another configuration.
    """
    try:
        summary, before = (read_json(folder / name) for name in ("summary.json", CONFIGURATION))
    except RunFolderError:
        return None  # not there, or torn: the run did not end
    if summary.get("status") != "completed":
        return None
    if changed_keys(before, as_json(config), (*HARMLESS, "checkpoint")):
        if changed := changed_keys(before, as_json(config), (*FREE, "checkpoint")):
            raise RunFolderError(
                f"{folder}: holds a completed run that differs in {', '.join(changed[:5])}; expected another folder"
            )
        return None  # it goes on to other limits
    return summary


def checkpoint_if_any(job: Job, folder: Path, config: Mapping[str, Any]) -> Checkpoint | None:
    """Return the checkpoint from which the run in the folder goes on; None: it begins."""
    from flexray.run.execution import last_checkpoint

    if config["checkpoint"]["dir"] is None and not (folder / "checkpoints").is_dir():
        return None
    try:
        return last_checkpoint(job, folder, config)
    except UserError as error:
        log.warning("%s; the run begins again", error)
        return None
