"""How long messages take: one by one, on shared links, with jitter, losses and bandwidths over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from flexray.core.network import WAYS, Link, Network, SharedLink, Way

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
    assert Network((link, Link(9.0))).carrying(UP, DOWN).usual_units == (16.0, 9.0)
    assert max(network(link, link).round_units(0, 0.0)) == 4.0 + 300 / 50 + 500 / 50  # the same, if all are alike


def test_parties_behind_one_uplink_share_it() -> None:
    links, both = (Link(0.0, 100.0), Link(0.0, 100.0)), frozenset({0, 1})
    assert max(network(*links).round_units(0, 0.0)) == 3.0
    # 100 bytes each in the first two units, then 200 more at 100
    assert max(network(*links, shared=(SharedLink(both, up=100.0),)).round_units(0, 0.0)) == 4.0
    assert max(network(*links, shared=(SharedLink(both, up=100.0),)).round_units(0, 0.0, {0})) == 3.0
    assert max(network(*links, shared=(SharedLink(both, up=200.0, down=100.0),)).round_units(0, 0.0)) == 13.0
    assert network(*links, shared=(SharedLink(both, up=20.0),)).turn_units(1, 0, 0.0) == 15.0  # alone


def waits(found: Network, way: Way, rounds: int) -> np.ndarray:
    return np.array([found.in_round(way, index, 0.0).wait_p[0] for index in range(rounds)])


def test_jitter_is_a_share_of_latency_and_nothing_is_carried_along() -> None:
    found = network(Link(10.0, jitter=0.4), Link(10.0), seed=3)
    up, down = (waits(found, way, 2000) for way in WAYS)
    assert 3.0 <= up.min() < 3.02
    assert 6.98 < up.max() <= 7.0
    assert up.mean() == pytest.approx(5.0, abs=0.05)
    assert abs(np.corrcoef(up, down)[0, 1]) < 0.05
    again = network(Link(10.0, jitter=0.4), Link(10.0), seed=3)
    assert [again.round_units(r, 9.0)[0] for r in (7, 5)] == [max(up[r], 5.0) + down[r] for r in (7, 5)]
    half = waits(network(Link(10.0, jitter=0.2), Link(10.0), seed=3), "up", 9)
    assert (2 * (half - 5)).tolist() == pytest.approx((up[:9] - 5).tolist())
    assert len({found.turn_units(0, turn, 0.0) for turn in range(9)}) == 9
    assert {found.turn_units(1, turn, 0.0) for turn in range(9)} == {10.0}


def test_a_lost_message_is_sent_again_after_a_round_trip() -> None:
    found = network(Link(10.0, 50.0, loss=0.5), Link(1.0), seed=1)
    sent = [found.in_round("up", r, 0.0) for r in range(2000)]
    times = [int(m.sends_p[0]) for m in sent]
    assert [times.count(n) / 2000 for n in (1, 2, 3)] == pytest.approx([1 / 2, 1 / 4, 1 / 8], abs=0.03)
    assert [m.units_p[0] for m in sent[:50]] == [5.0 + (n - 1) * 10.0 + n * 2.0 for n in times[:50]]
    rarer = network(Link(10.0, 50.0, loss=0.2), Link(1.0), seed=1)
    assert all(rarer.in_round("up", r, 0.0).sends_p[0] <= times[r] for r in range(200))
    assert all(m.sends_p[1] == 1 for m in sent)
    turns = [int(found.in_turn("up", 0, turn, 0.0).sends_p[0]) for turn in range(500)]
    assert [turns.count(n) / 500 for n in (1, 2)] == pytest.approx([1 / 2, 1 / 4], abs=0.05)


def test_bandwidths_follow_a_scale() -> None:
    def scale(index: int, sim_time: float) -> Sequence[float]:
        return (0.5 if index else 1.0, 2.0 if sim_time < 10 else 1.0)

    found = network(Link(0.0, 100.0), Link(0.0, 100.0), scale=scale)
    assert [found.turn_units(0, r, 0.0) for r in (0, 1)] == [1.0, 2.0]
    assert [found.turn_units(1, 0, t) for t in (0.0, 10.0)] == [1.5, 3.0]
    assert found.round_units(1, 10.0) == (3.0, 3.0)
    assert found.in_round("down", 1, 0.0).most_p.tolist() == [math.inf, math.inf]


def test_very_many_links_take_little_time() -> None:
    links = tuple(Link(2.0, 1e5, 1e5 * (1 + k % 7), 0.1, 0.01) for k in range(20_000))
    found = Network(links, one_by_one=True).carrying((8192,) * len(links), (32_000,) * len(links))
    assert len({found.round_units(r, 0.0) for r in range(3)}) == 3
