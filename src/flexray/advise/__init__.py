"""``flexray.advise(...)`` and ``python -m flexray.advise``: which timeout, which participant, which link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flexray.core.callable_module import make_callable

if TYPE_CHECKING:
    from flexray.advise.advice import Advice

ROUNDS = 60
"""Rounds (VAFL: turns of each party) by which a setting is judged, where no limit is given."""


def advise(*overrides: str, timeouts: Sequence[float] = (), seeds: int = 1, **keys: Any) -> Advice:
    """Try other timeouts, quicker participants and quicker links in short runs, and return what each is worth.

    All runs have the same simulated time, that of the limits given or of 60 rounds (VAFL: turns of each party), and are
    evaluated forty times. What counts is the time to the test loss that the setting itself ends with. Runs are taken in
    this process, whatever ``cluster`` says. With ``learn=false`` nothing is trained, and only times are compared.

    Args:
        overrides: Words of the command line, those of the setting.
        timeouts: Timeouts to try; none: a quarter, a half, one, two and three of the setting's own.
        seeds: How many seeds, of which the median counts.
        keys: The same as keys, as for :func:`flexray.simulate`; data is given as a file or folder.

    Returns:
        Tables of timeouts, participants and links; printed, it is one page.

    Raises:
        flexray.core.errors.UserError: A key or the data is wrong.
        flexray.core.errors.ParticipantError: A class of yours raised.

    Example:
        >>> import flexray
        >>> found = flexray.advise("speeds=google_mean", rounds=6, timeouts=[10, 20])
        >>> found.timeouts["duration"].tolist()
        [20.0, 30.0]
    """
    from flexray.advise.trials import advised  # imports Hydra

    return advised(overrides, keys, timeouts, seeds)


make_callable(__name__)
