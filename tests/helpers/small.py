"""Short runs of the algorithms of rounds on the three parties of the small bundle."""

from __future__ import annotations

from collections.abc import Sequence

from flexray.core.messages import Ended, Record, RoundRecord

NAMES = ("flex", "adaptive", "sync_min", "sync_max", "pbcd")
FIELD = ("split", "fedbcd", "cvfl", "efvfl", "fedonce")
"""Those of other papers."""
SMALL = ("model.hidden=[4]", "embedding=3", "dataset.batch_size=5", "timeout=6", "eval_every=3", "rounds=12")


def rounds_of(records: Sequence[Record]) -> list[RoundRecord]:
    return [record for record in records if isinstance(record, RoundRecord)]


def ended(records: Sequence[Record]) -> Ended:
    """Return the last record of a run that came to its end."""
    last = records[-1]
    assert isinstance(last, Ended)
    return last
