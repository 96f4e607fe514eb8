"""Energy and money, from numbers that can be checked by hand."""

from __future__ import annotations

from fractions import Fraction

from flexray.core.costs import Costs, total

COMPUTED = [Fraction(10), Fraction(1, 2), Fraction(0)]
SENT = [3_000_000_000, 500_000_000]


def test_energy_is_that_of_computing_and_of_bytes() -> None:
    found = Costs(joules_per_unit=(2.0, 4.0, 8.0), joules_per_byte=(1e-9, 0.0)).energy(COMPUTED, SENT)
    assert [(float(machine), float(link)) for machine, link in found] == [(20.0, 3.0), (2.0, 0.0), (0.0, 0.0)]
    assert total(found) == 25.0


def test_machines_are_paid_by_the_hour_and_links_by_the_gigabyte() -> None:
    costs = Costs(price_per_hour=(3.6, 0.0, 36.0), price_per_gb=(0.25, 0.5), seconds_per_unit=0.5)
    found = costs.price(200.0, SENT)
    assert [(float(machine), float(link)) for machine, link in found] == [(0.1, 0.75), (0.0, 0.25), (1.0, 0.0)]
    assert total(found) == 2.1


def test_what_is_not_given_costs_nothing() -> None:
    assert (Costs().has_energy, Costs().has_price) == (False, False)
    assert Costs(joules_per_byte=(1.0, 1.0)).energy(COMPUTED, SENT)[2] == (0, 0)
    assert total(Costs(price_per_gb=(1.0, 1.0)).price(1e9, SENT)) == 3.5
