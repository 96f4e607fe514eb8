"""Max-min fair shares of links, beside SimGrid and by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from flexray.core.flows import Flow, Traffic, end_times, max_min_rates

PLATFORMS = json.loads((Path(__file__).parent / "simgrid_flows.json").read_text(encoding="utf-8"))


def ends_of(flows: list[Flow], capacities: list[float]) -> list[float]:
    begin, left, most = (np.array([getattr(flow, name) for flow in flows]) for name in ("begin", "left", "most"))
    crosses = np.array([[place in flow.crosses for place in range(len(capacities))] for flow in flows], dtype=bool)
    return end_times(begin, left, most, crosses, capacities).tolist()


def test_a_hundred_random_platforms_end_as_simgrid_ends_them() -> None:
    assert len(PLATFORMS) == 100
    for platform in PLATFORMS:
        flows = [Flow(b, size, most or math.inf, tuple(links)) for b, size, most, links, _ in platform["flows"]]
        expected = [end for *_, end in platform["flows"]]
        assert ends_of(flows, platform["capacities"]) == pytest.approx(expected, rel=1e-6)


def test_nobody_gets_more_while_somebody_who_could_use_it_gets_less() -> None:
    draw = np.random.Generator(np.random.PCG64(5))
    for _ in range(50):
        crosses_fl = draw.random((8, 4)) < 0.4
        most_f, capacity_l = 10 ** draw.uniform(0, 3, 8), 10 ** draw.uniform(0, 4, 4)
        rate_f = max_min_rates(most_f, crosses_fl, capacity_l)
        used_l = (rate_f[:, None] * crosses_fl).sum(axis=0)
        assert (used_l <= capacity_l * (1 + 1e-9)).all()
        full_l = used_l >= capacity_l * (1 - 1e-9)
        for f in range(8):  # its own link is full, or one on which nobody gets more
            held_up = [k for k in range(4) if crosses_fl[f, k] and full_l[k]]
            largest = [rate_f[crosses_fl[:, k]].max() <= rate_f[f] * (1 + 1e-9) for k in held_up]
            assert rate_f[f] == most_f[f] or any(largest)


def test_what_has_no_length_or_no_limit_takes_no_time() -> None:
    assert ends_of([Flow(2.0, 0.0, 1.0), Flow(3.0, 5.0), Flow(1.0, 4.0, 2.0)], []) == [2.0, 3.0, 3.0]


def test_a_flow_that_is_picked_up_again_ends_when_it_would_have() -> None:
    flows = [Flow(0.0, 100.0, crosses=(0,)), Flow(3.0, 100.0, 2.0, (0, 1)), Flow(7.0, 9.0, crosses=(1,))]
    capacities = [10.0, 3.0]
    traffic = Traffic.idle(3, capacities)
    for place, flow in enumerate(flows):
        traffic.send(place, flow)
    assert traffic.step() == []  # the first begins with the clock; the second does at 3
    again = Traffic.idle(3, capacities, traffic.now)
    for place in range(3):
        again.send(place, traffic.flow(place))
    ends = {}
    while again.is_busy:
        assert again.next == pytest.approx(traffic.next, rel=1e-15)
        places = again.step()
        assert traffic.step() == places
        ends |= dict.fromkeys(places, again.now)
    assert [ends[place] for place in range(3)] == ends_of(flows, capacities)
