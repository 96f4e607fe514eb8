"""Rounds that are not all alike: what is done in each (docs/algorithms.md, FedOnce and LESS-VFL)."""

from __future__ import annotations

from typing import Literal

Phase = Literal["joint", "apart", "handover", "components", "features"]
"""What is done in a round.

* ``joint``: parties train on the loss, with what others sent;
* ``apart``: each alone, on its features, without labels, and nothing is sent;
* ``handover``: the same, and in the end each sends its embeddings of all training samples, which stand in for it from
  then on.

Where an algorithm :attr:`~Phased.selects`, after a handover:

* ``components``: as ``joint``, and the server drops components of embeddings that it can do without;
* ``features``: each party alone drops features that the other components can do without, and nothing is sent.
"""


class Phased:
    """What an algorithm of rounds says of its phases; by default there is one."""

    selects: bool = False
    """Whether components of embeddings and features are dropped; the models then begin with a linear layer."""

    def phase(self, index: int) -> Phase:
        """Return what is done in a round (0-based), the same each time."""
        return "joint"

    def penalty(self, index: int) -> float:
        """Return the weight of the group lasso in a round (0-based) that drops components or features."""
        return 0.0

    @property
    def has_phases(self) -> bool:
        """Whether rounds may be other than ``joint``."""
        return type(self).phase is not Phased.phase
