"""What a run costs: energy and money, from computing time, bytes and the time that it takes (docs/time.md, Costs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

ENERGY, PRICE = "energy_joules", "price"
TITLES = {ENERGY: "energy (J)", PRICE: "price"}
"""Costs by their names in files, and as people read them."""
BYTES_PER_GB = 10**9
SECONDS_PER_HOUR = 3600

Shares = list[tuple[Fraction, Fraction]]
"""Per participant, the parties and then the server: what its machine costs, and what its link."""


@dataclass(frozen=True)
class Costs:
    """What participants' machines and links cost; empty where nothing is given.

    A unit of time is that of the run: ``units``, or seconds where those are counted.

    Args:
        joules_per_unit: Energy of a unit of time that a participant computes; the parties, then the server.
        joules_per_byte: Energy of a byte on a party's link, in either direction.
        price_per_hour: Price of a participant's machine, which is paid from the start of a run to its end.
        price_per_gb: Price of 1e9 bytes on a party's link, in either direction.
        seconds_per_unit: How many seconds a unit of time stands for; it turns units into hours.
    """

    joules_per_unit: tuple[float, ...] = ()
    joules_per_byte: tuple[float, ...] = ()
    price_per_hour: tuple[float, ...] = ()
    price_per_gb: tuple[float, ...] = ()
    seconds_per_unit: float = 1.0

    @property
    def has_energy(self) -> bool:
        """Whether energy is asked for."""
        return bool(self.joules_per_unit or self.joules_per_byte)

    @property
    def has_price(self) -> bool:
        """Whether a price is asked for."""
        return bool(self.price_per_hour or self.price_per_gb)

    def energy(self, computed: Sequence[Fraction], sent_bytes: Sequence[int]) -> Shares:
        """Return joules of computing and of links, exactly.

        Args:
            computed: Units of time that each participant computed.
            sent_bytes: Bytes on each party's link, both directions.
        """
        return _shares(self.joules_per_unit, computed, self.joules_per_byte, sent_bytes)

    def price(self, time: float, sent_bytes: Sequence[int]) -> Shares:
        """Return the price of machines and of links, exactly.

        Args:
            time: Units of time since the start.
            sent_bytes: Bytes on each party's link, both directions.
        """
        hours = Fraction(time) * Fraction(self.seconds_per_unit) / SECONDS_PER_HOUR
        gigabytes = [Fraction(count, BYTES_PER_GB) for count in sent_bytes]
        return _shares(self.price_per_hour, [hours] * (len(sent_bytes) + 1), self.price_per_gb, gigabytes)


def _shares(
    per_time: Sequence[float], times: Sequence[Fraction], per_size: Sequence[float], sizes: Sequence[Fraction | int]
) -> Shares:
    machines = [Fraction(rate) * time for rate, time in zip(per_time or [0.0] * len(times), times, strict=True)]
    links = [Fraction(rate) * size for rate, size in zip(per_size or [0.0] * len(sizes), sizes, strict=True)]
    return list(zip(machines, [*links, Fraction()], strict=True))


def total(shares: Shares) -> float:
    """Return the sum of all shares."""
    return float(sum((machine + link for machine, link in shares), Fraction()))
