"""``flexray.calibrate(...)`` and ``python -m flexray.calibrate``: the seconds of your machines and links."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flexray.core.callable_module import make_callable

if TYPE_CHECKING:
    from flexray.calibrate.calibration import Calibration

FILE = "measured.yaml"
"""Where seconds are written by default, and read by ``speeds=measured``."""
SECONDS = 20.0
"""How long a calibration measures by default."""


def calibrate(
    *overrides: str,
    file: str | os.PathLike[str] = FILE,
    seconds: float = SECONDS,
    batch_sizes: Sequence[int] = (),
    **keys: Any,
) -> Calibration:
    """Measure on the processes of a run what its participants and links take, and write it to a file.

    A run with ``speeds={"kind": "measured", "path": file}`` then counts in seconds. Within ``flexray.cluster(...)`` the
    processes of the block are measured.

    Args:
        overrides: Words of the command line, those of the run that is to be predicted. Its speeds, links, clock,
            algorithm and limits do not matter here.
        file: Where to write, a small YAML file; one that is there is replaced.
        seconds: About how long to measure.
        batch_sizes: Measure with each of these; runs with batches between them are then predicted, too. None: that of
            the run.
        keys: The same as keys, as for :func:`flexray.simulate`; data is given as a file or folder.

    Returns:
        What was measured, which can be given as ``speeds.path``, too.

    Raises:
        flexray.core.errors.UserError: A key or the data is wrong, or the file cannot be written.
        flexray.core.errors.ParticipantError: A class of yours raised.

    Example:
        >>> import flexray
        >>> found = flexray.calibrate(cluster="inline", seconds=0.1)
        >>> found.participants["server"]["iteration_s"] > 0
        True
        >>> keys = {"timeout": 0.1, "rounds": 2, "cluster": "inline", "progress": False}
        >>> flexray.simulate(speeds={"kind": "measured", "path": found}, **keys).summary["time_unit"]
        'seconds'
    """
    from flexray.calibrate.measuring import calibrated  # imports Hydra

    return calibrated(overrides, keys, file, seconds, batch_sizes)


make_callable(__name__)
