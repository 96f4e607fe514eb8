"""Runs from Python, with the words of the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flexray.api.launch import launch
from flexray.api.process import TemporaryFolder
from flexray.api.run import Run
from flexray.config.given import read_keys


def simulate(*overrides: str, folder: str | os.PathLike[str] | None = None, **keys: Any) -> Run:
    """Run one experiment to its end, with the numbers and files of ``python -m flexray.run`` with the same words.

    Args:
        overrides: Words of the command line, such as ``"algo=adaptive"`` and ``"network.t_comm=50"``.
        folder: The run folder, which is kept. None: a temporary one, removed with the :class:`Run` or at the end of
            the process.
        keys: The same as keys, ``algo="adaptive"`` and ``network={"t_comm": 50}``, which come after ``overrides``.
            Below a group (``dataset``, ``model``, ...) they are merged with what the choice has. Beyond words,
            ``algo``, ``dataset``, ``model``, ``server`` and ``optimizer`` (the last three also within ``parties``) take
            a class or a function, ``optimizer`` and ``dataset`` an instance, each with arguments as
            ``{"_target_": Wide, "width": 3}``. Keys that take a file or folder (``dataset.path``, ``dataset.files``,
            ``speeds.path``, ``network.trace.path``) take the data itself: a DataFrame, or arrays by name.

    Returns:
        The run: completed, diverged, or given up after it lost processes too often.

    Raises:
        flexray.core.errors.UserError: A key, a file or the data is wrong; one line says which.
        flexray.core.errors.ParticipantError: A class of yours raised.
        KeyboardInterrupt: Ctrl-C ended the run after its round; ``flexray.read(folder).resume()`` goes on.

    Example:
        >>> import flexray
        >>> run = flexray.simulate("algo=adaptive", "dataset=digits", rounds=4, cluster="inline", progress=False)
        >>> run.rounds[["round", "sim_time_units", "sent_bytes"]]
           round  sim_time_units  sent_bytes
        0      1            30.0      184480
        1      2            60.0      184480
        2      3            90.0      184480
        3      4           120.0      184480
    """
    given = read_keys(keys)
    words = [*overrides, *given.words]
    home = TemporaryFolder() if folder is None else None
    place = home.path if home else Path(os.path.abspath(Path(folder or "").expanduser()))
    try:
        place = launch(words, given, place, is_kept=folder is not None)
    except KeyboardInterrupt:
        if home:
            home.outlive()  # it can go on
        raise
    except BaseException:
        if home:
            home.remove()
        raise
    return Run(place, given.objects, True, home)
