"""Links and what happens on them, from the keys ``network.*``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flexray.config.by_participant import resolve
from flexray.core.checks import not_negative, number, positive, shown
from flexray.core.errors import ConfigError
from flexray.core.links import PLAIN, Wire


def bandwidths(config: Mapping[str, Any], parties: Sequence[str]) -> tuple[float, ...]:
    """Return bytes per unit of time of every party's link; nothing if bytes take no time."""
    given = config["network"]["bandwidth"]
    if given is None:
        return ()
    return resolve("network.bandwidth", given, parties, positive, [math.inf] * len(parties))


def wires(config: Mapping[str, Any], parties: Sequence[str]) -> tuple[Wire, ...]:
    """Return what every party does to embeddings that it sends; nothing if that is nothing."""
    node = config["network"]
    columns = [
        resolve("network.clip", node["clip"], parties, positive, [math.inf] * len(parties)),
        resolve("network.noise", node["noise"], parties, not_negative, [0.0] * len(parties)),
        resolve("network.top_k", node["top_k"], parties, _share, [1.0] * len(parties)),
        resolve("network.bits", node["bits"], parties, _bits, [0.0] * len(parties)),
    ]
    found = tuple(
        Wire(clip if clip < math.inf else None, noise, top_k, int(bits) or None)
        for clip, noise, top_k, bits in zip(*columns, strict=True)
    )
    return () if all(wire == PLAIN for wire in found) else found


def _share(key: str, value: Any) -> float:
    return number(key, value, above=0, high=1)


def _bits(key: str, value: Any) -> float:
    if type(value) is not int or not 1 <= value <= 16:
        raise ConfigError(f"{key}: expected a whole number from 1 to 16, got {shown(value)}")
    return float(value)
