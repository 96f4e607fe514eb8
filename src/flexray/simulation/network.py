"""Links: what communication takes, from a latency and the bytes of a round (SPEC 8)."""

from __future__ import annotations

from collections.abc import Sequence


def link_units(
    latency_units: Sequence[float], bytes_per_unit: Sequence[float], round_bytes: Sequence[int]
) -> tuple[float, ...]:
    """Return t_comm of every party: its latency plus the bytes of a round over its bandwidth.

    Args:
        latency_units: The round trip of a message of no length, per party.
        bytes_per_unit: Bandwidth in bytes per unit of time, per party; infinite where bytes cost nothing.
        round_bytes: Bytes that travel in a round (VAFL: in a turn), both directions, per party.
    """
    return tuple(
        latency + sent / bandwidth
        for latency, bandwidth, sent in zip(latency_units, bytes_per_unit, round_bytes, strict=True)
    )
