"""Runs that are there already."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flexray.api.run import Run
from flexray.config.given import read_keys
from flexray.core.errors import RunFolderError
from flexray.core.runfolder import check_files
from flexray.report.folders import MARKS


def read(folder: str | os.PathLike[str], trust: bool = False, **objects: Any) -> Run:
    """Return the run in a run folder, made by Python or by the command.

    Its files are read as text. Of a folder that somebody else made, :meth:`Run.resume`, :meth:`Run.predict` and
    :attr:`Run.models` refuse what a stranger may not set, such as classes that are none of flexray's.

    Args:
        folder: The run folder.
        trust: Let the folder set everything: you made it yourself, or trust its maker.
        objects: Python objects that the run was given and that a folder cannot hold, by the same keys: ``model=Wide``.

    Raises:
        UserError: There is no run, or a file of it is a link or the like.
    """
    place = Path(os.path.realpath(Path(folder).expanduser()))
    if not any((place / mark).exists() for mark in MARKS):
        raise RunFolderError(f"{folder}: no run in it; expected a run folder, which has {MARKS[0]} or {MARKS[1]}")
    check_files(place, writes=False)
    return Run(place, read_keys(objects, by_name=False).objects, trust)
