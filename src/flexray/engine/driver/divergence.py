"""When a run has diverged: a loss is NaN or infinite, or finite and a million times what it was before training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter

from flexray.core.messages import SERVER, Divergence, Report

GROWTH = 1e6
"""A loss so many times the first one (or 1, if that was less) is that of a run that diverged."""


class Watch:
    """Remembers the first loss of a run, and where it diverged.

    Args:
        names: The parties, then the server.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.first_loss: float | None = None
        self.found: Divergence | None = None

    def reports(self, done: int, reports: Sequence[Report]) -> None:
        """Look at everybody's reports of round ``done`` (1-based): the earliest local iteration counts."""
        found = list(map(attrgetter("diverged_at"), reports))
        if found.count(None) < len(found) and not self.found:
            iteration, k = min((at, k) for k, at in enumerate(found) if at is not None)
            self.found = Divergence(done, self._names[k], iteration)
        self.losses(done, [r.loss for r in reports[-1:] if r.loss is not None])

    def losses(self, done: int, losses: Iterable[float]) -> None:
        """Look at losses of the whole model after ``done`` rounds."""
        for loss in losses:
            if self.first_loss is None:
                self.first_loss = loss
            elif not loss <= GROWTH * max(1.0, self.first_loss) and not self.found:
                self.found = Divergence(done, SERVER, 0, loss if math.isfinite(loss) else None)
