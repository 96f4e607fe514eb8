"""``resume=auto``: of a command given again, only what is missing runs.

A job whose folder holds a completed run of the same configuration is skipped; one that left a checkpoint goes on from
it; any other begins.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexray.errors import ConfigError, RunFolderError, UserError
from flexray.keys import HARMLESS
from flexray.report.reading import read_json
from flexray.resuming import as_json, changed_keys

if TYPE_CHECKING:
    from flexray.build import Job
    from flexray.checkpoint import Checkpoint

AUTO = "auto"
CONFIGURATION = "configuration.json"

log = logging.getLogger("flexray")


def check_folder_is_fixed(typed: Collection[str], sweeping: bool) -> None:
    """Refuse ``resume=auto`` where every command gets a new folder.

    Raises:
        ConfigError: The key that fixes it is not among those typed.
    """
    key = "hydra.sweep.dir" if sweeping else "hydra.run.dir"
    if key not in typed:
        raise ConfigError(
            f"resume: auto looks for earlier runs in {key}, which is new each time; expected {key}=FOLDER"
        )


def forget(folder: Path) -> None:
    """Note that a run begins or goes on in the folder: what it holds is not complete from now on."""
    (folder / CONFIGURATION).unlink(missing_ok=True)


def remember(folder: Path, config: Mapping[str, Any]) -> None:
    """Note which configuration the folder's summary belongs to; Hydra's own record is renewed before a job begins."""
    (folder / CONFIGURATION).write_text(json.dumps(as_json(config)), encoding="utf-8")


def completed_summary(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the summary of the completed run of this configuration in the folder, or None."""
    try:
        summary, before = (read_json(folder / name) for name in ("summary.json", CONFIGURATION))
    except RunFolderError:
        return None  # not there, or torn: the run did not end
    if summary.get("status") != "completed":
        return None
    changed = changed_keys(before, as_json(config), (*HARMLESS, "checkpoint"))
    if changed:
        log.warning("%s holds a run that differs in %s", folder, ", ".join(changed[:5]))
        return None
    return summary


def checkpoint_if_any(job: Job, folder: Path, config: Mapping[str, Any]) -> Checkpoint | None:
    """Return the checkpoint from which the run in the folder goes on; None: it begins."""
    from flexray.running import last_checkpoint

    if config["checkpoint"]["dir"] is None and not (folder / "checkpoints").is_dir():
        return None
    try:
        return last_checkpoint(job, folder, config)
    except UserError as error:
        log.warning("%s; the run begins again", error)
        return None
