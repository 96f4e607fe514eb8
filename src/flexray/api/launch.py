"""Runs the job of some words in a folder, as the command does, in a process that goes on afterwards."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from flexray.api.data import write_data
from flexray.api.process import borrowed_process, run_log
from flexray.cluster.warm import CURRENT
from flexray.config.compose import borrowed_hydra, compose_all, without_hydra
from flexray.config.explain import explained
from flexray.config.given import Given
from flexray.config.remembered import Merged
from flexray.config.typed import key_of, quoted, typed_value
from flexray.core.errors import ConfigError, ParticipantError, RunFolderError
from flexray.core.files import failing
from flexray.core.runfolder import DATA_FOLDER, LOG_FILE, ROUNDS_FILE, SUMMARY_FILE
from flexray.run.places import Places
from flexray.run.resume import AUTO, Resume, find_resume
from flexray.run.single import Asked, SingleRun

if TYPE_CHECKING:
    from flexray.run.watch.sweep import SweepProgress


@dataclass(frozen=True)
class Among:
    """What a run has of the sweep to which it belongs.

    Args:
        swept: Keys that the sweep goes through.
        progress: The progress of the sweep.
        base_dir: Folder that relative paths start from, of a run on another machine, which is quiet; None: the current.
        merged: What it remembers of configuration files.
    """

    swept: Collection[str] = ()
    progress: SweepProgress | None = None
    base_dir: Path | None = None
    merged: Merged | None = None


def launch(words: Sequence[str], given: Given, folder: Path, is_kept: bool = True, among: Among | None = None) -> Path:
    """Run one job to its end and return its folder.

    Args:
        words: All words, those of ``given`` among them.
        given: Objects and data.
        folder: The folder of a run that begins.
        is_kept: Whether the caller named it.
        among: The sweep to which the run belongs.

    Raises:
        flexray.core.errors.FlexrayError: The run cannot begin, or code of a participant raised.
        KeyboardInterrupt: A signal ended the run, after its round or, the second time, at once.
    """
    _check_words(words)
    block = CURRENT.get()
    words = block.words_before(words) if block else list(words)
    with borrowed_process(), borrowed_hydra():
        value = typed_value(words, "resume")
        resume = None if value == AUTO else find_resume(value, words, given.objects)
        place = resume.folder if resume else folder
        if value is None:
            check_new(place)
        elif is_kept != (value == AUTO):
            raise ConfigError(
                "folder: expected it beside resume='auto', and not beside resume=RUN_FOLDER, which has one"
            )
        arguments = resume.arguments if resume else [*words, f"hydra.run.dir={quoted(os.fspath(place))}"]
        with explained():
            config = compose_all(arguments, among.merged if among else None)
        with failing(f"folder: {place}: cannot be made", RunFolderError):
            place.mkdir(parents=True, exist_ok=True)
        places = block.places if block else Places()
        try:
            _run(config, place, given, resume, places, among or Among())
        finally:
            if block is None:
                places.close()
    return place


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        if not isinstance(word, str):
            raise ConfigError(f"expected words such as 'algo=flex', got {word!r}")
        if word.startswith("-"):
            raise ConfigError(f"{word}: an option of the command; expected words such as 'algo=flex'")
        if key_of(word).partition(".")[0] == "hydra":
            raise ConfigError(f"{key_of(word)}: Hydra's own keys are the command's; folder=... says where a run writes")


def check_new(folder: Path) -> None:
    """Refuse a folder that holds a run."""
    if any((folder / name).exists() for name in (SUMMARY_FILE, ROUNDS_FILE)):
        raise RunFolderError(
            f"folder: {folder} holds a run; expected another folder, resume='auto', or flexray.read(folder).resume()"
        )


def _run(config: DictConfig, folder: Path, given: Given, resume: Resume | None, places: Places, among: Among) -> None:
    """Run a composed job as Hydra would; a run of this very configuration that is completed stays as it is."""
    goes_on = resume is not None or config.resume == AUTO
    with read_write(config.hydra.runtime), open_dict(config.hydra.runtime):
        config.hydra.runtime.output_dir = os.fspath(folder)
        config.hydra.runtime.cwd = os.fspath(among.base_dir or config.hydra.runtime.cwd)
    HydraConfig.instance().set_config(config)
    form = str(config.hydra.job_logging.formatters.file.format)
    with run_log(folder / LOG_FILE, form), explained((OmegaConfBaseException,)):
        asked = Asked(without_hydra(copy.deepcopy(config)))
        asked.settle()
        write_data(folder / DATA_FOLDER, given.data, goes_on)
        if asked.completed() is not None:
            return
        base_dir = resume.base_dir if resume else asked.cwd
        quiet = among.base_dir is not None
        single = SingleRun(
            asked, places, base_dir, resume is not None, among.swept, quiet, among.progress, given.objects
        )
        summary = _summary_of(single)
    if single.interrupted:
        how = (
            ""
            if summary["time_unit"] == "seconds" and not summary.get("predicted")
            else f"; flexray.read({os.fspath(folder)!r}).resume() goes on"
        )
        raise KeyboardInterrupt(f"stopped after round {summary['rounds']}{how}")


def _summary_of(single: SingleRun) -> dict[str, Any]:
    """Return the summary; the traceback of user code that raised in another process is shown with its error."""
    from flexray.engine.hosts.inline import borrowed_torch  # imports torch: mistyped keys are reported sooner without

    try:
        with borrowed_torch():
            return single.run()
    except ParticipantError as error:
        if error.trace and error.__cause__ is None:
            error.add_note(error.trace.rstrip())
        raise
