"""Which kind of party a run needs."""

from __future__ import annotations

from flexray.engine.parties.apart import ApartParty
from flexray.engine.parties.pipelined import PipelinedParty
from flexray.engine.parties.selecting import SelectingParty
from flexray.engine.parties.silo import SiloParty
from flexray.engine.parties.spec import ParticipantSpec, Shared


def make_party(spec: ParticipantSpec, shared: Shared) -> ApartParty:
    """Return a party: a silo if it has clients, one that drops features if the algorithm selects, else a usual one.

    One that may be ahead of its gradients is another.
    """
    if shared.clients > 1:
        return SiloParty(spec, shared)
    if shared.per_gradient:
        return PipelinedParty(spec, shared)
    return SelectingParty(spec, shared) if shared.selects else ApartParty(spec, shared)
