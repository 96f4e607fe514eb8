"""Runs that are there already."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flexray.api.run import Run
from flexray.api.sweep import Sweep
from flexray.config.given import read_keys
from flexray.core.errors import DataError, RunFolderError
from flexray.core.runfolder import check_files
from flexray.report.folders import MARKS, find_runs


def read(folder: str | os.PathLike[str], trust: bool = False, **objects: Any) -> Run | Sweep:
    """Return the run in a run folder, made by Python or by the command, or the runs in a sweep's folder.

    Its files are read as text. Of a folder that somebody else made, :meth:`Run.resume`, :meth:`Run.predict` and
    :attr:`Run.models` refuse what a stranger may not set, such as classes that are none of flexray's.

    Args:
        folder: The run folder, or a folder above several.
        trust: Let the folder set everything: you made it yourself, or trust its maker.
        objects: Python objects that the run was given and that a folder cannot hold, by the same keys: ``model=Wide``.

    Raises:
        UserError: There is no run, or a file of it is a link or the like.

    Example:
        >>> import flexray
        >>> run = flexray.simulate("dataset=digits", rounds=2, cluster="inline", progress=False)
        >>> flexray.read(run.folder)
        <Run flex on digits: completed, 2 rounds, test_top1 0...>
    """
    place = Path(os.path.realpath(Path(folder).expanduser()))
    try:
        found = find_runs([place])
    except DataError:
        expected = f"a run folder, which has {MARKS[0]} or {MARKS[1]}, or a folder of such"
        raise RunFolderError(f"{folder}: no run in it; expected {expected}") from None
    given = read_keys(objects, by_name=False).objects
    for path in found:
        check_files(path, writes=False)
    members = [Run(path, given, trust) for path in found]
    return members[0] if found == [place] else Sweep(place, members)
