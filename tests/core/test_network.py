"""How long messages take: one by one, on shared links, with jitter, losses and bandwidths over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from flexray.core.network import WAYS, Link, Network, SharedLink

UP, DOWN = (100, 300), (500, 500)


def network(*links: Link, **more: object) -> Network:
    return Network(links, one_by_one=True, **more).carrying(UP, DOWN)  # type: ignore[arg-type]


def test_the_server_answers_when_it_has_the_last_message() -> None:
    found = network(Link(2.0, 100.0, 50.0), Link(6.0, 100.0, 500.0))
    assert found.round_units(0, 0.0) == (6.0 + 11.0, 6.0 + 4.0)  # 1 + 1 and 3 + 3 up, 1 + 10 and 3 + 1 down
    assert found.round_units(0, 0.0, {1}) == (2.0 + 11.0, 0.0)
    assert found.round_units(0, 0.0, {0, 1}) == (0.0, 0.0)
    assert found.turn_units(1, 0, 0.0) == 6.0 + 4.0


def test_one_number_for_both_directions_is_the_slowest_round_trip() -> None:
    link = Link(4.0, 50.0, 50.0)
    assert Network((link, Link(9.0))).carrying(UP, DOWN).usual_units() == (16.0, 9.0)
    assert max(network(link, link).round_units(0, 0.0)) == 4.0 + 300 / 50 + 500 / 50  # the same, if all are alike


def test_parties_behind_one_uplink_share_it() -> None:
    links, both = (Link(0.0, 100.0), Link(0.0, 100.0)), frozenset({0, 1})
    assert max(network(*links).round_units(0, 0.0)) == 3.0
    # 100 bytes each in the first two units, then 200 more at 100
    assert max(network(*links, shared=(SharedLink(both, up=100.0),)).round_units(0, 0.0)) == 4.0
    assert max(network(*links, shared=(SharedLink(both, up=100.0),)).round_units(0, 0.0, {0})) == 3.0
    assert max(network(*links, shared=(SharedLink(both, up=200.0, down=100.0),)).round_units(0, 0.0)) == 13.0
    assert network(*links, shared=(SharedLink(both, up=20.0),)).turn_units(1, 0, 0.0) == 15.0  # alone


def test_jitter_is_a_share_of_latency_and_nothing_is_carried_along() -> None:
    found = network(Link(10.0, jitter=0.4), Link(10.0), seed=3)
    waits = np.array([[found.message(way, 0, r, 0.0).wait for way in WAYS] for r in range(2000)])
    assert 3.0 <= waits.min() < 3.02
    assert 6.98 < waits.max() <= 7.0
    assert waits.mean() == pytest.approx(5.0, abs=0.05)
    assert abs(np.corrcoef(waits.T)[0, 1]) < 0.05
    assert [network(Link(10.0, jitter=0.4), Link(10.0), seed=3).turn_units(0, r, 9.0) for r in range(9)] == [
        pytest.approx(wait.sum()) for wait in waits[:9]
    ]
    half = [network(Link(10.0, jitter=0.2), Link(10.0), seed=3).message("up", 0, r, 0.0).wait for r in range(9)]
    assert [2 * (wait - 5) for wait in half] == pytest.approx(waits[:9, 0] - 5)


def test_a_lost_message_is_sent_again_after_a_round_trip() -> None:
    found = network(Link(10.0, 50.0, loss=0.5), Link(1.0), seed=1)
    sends = [found.sends(0, r)[0] for r in range(2000)]
    assert [sends.count(n) / 2000 for n in (1, 2, 3)] == pytest.approx([1 / 2, 1 / 4, 1 / 8], abs=0.03)
    for r in range(20):
        assert found.message("up", 0, r, 0.0).units == 5.0 + (sends[r] - 1) * 10.0 + sends[r] * 2.0
    rarer = network(Link(10.0, 50.0, loss=0.2), Link(1.0), seed=1)
    assert all(rarer.sends(0, r)[0] <= sends[r] for r in range(200))
    assert network(Link(1.0), Link(1.0)).sends(1, 5) == (1, 1)


def test_bandwidths_follow_a_scale() -> None:
    def scale(index: int, sim_time: float) -> Sequence[float]:
        return (0.5 if index else 1.0, 2.0 if sim_time < 10 else 1.0)

    found = network(Link(0.0, 100.0), Link(0.0, 100.0), scale=scale)
    assert [found.turn_units(0, r, 0.0) for r in (0, 1)] == [1.0, 2.0]
    assert [found.turn_units(1, 0, t) for t in (0.0, 10.0)] == [1.5, 3.0]
    assert found.message("down", 0, 1, 0.0).most == math.inf
