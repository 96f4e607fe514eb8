"""Hosts and nodes: labels, shares, placement, and what is said when they do not fit."""

from __future__ import annotations

import pytest

from flexray.cluster.cli import main
from flexray.core.errors import ConfigError, ResourceError
from flexray.engine.hosts.fit import Node, UndecidedError, assign, check_fit, demands, matches, share_out
from flexray.engine.hosts.plan import HostSpec
from helpers.jobs import Compose


def node(name: str, cpus: float, free: float | None = None, **labels: str) -> Node:
    return Node(name, {"CPU": cpus}, {"CPU": cpus if free is None else free}, labels)


def hosts(*cpus: float | None, labels: dict[int, dict[str, str]] | None = None) -> list[HostSpec]:
    return [HostSpec(f"h{i}", amount, labels=(labels or {}).get(i, {})) for i, amount in enumerate(cpus)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("a", [True, False, False]), ("!a", [False, True, True]), ("in(a, b)", [True, True, False]),
     ("!in(a,b)", [False, False, True])],
)  # fmt: skip
def test_labels_are_matched_as_ray_does(wanted: str, expected: list[bool]) -> None:
    assert [matches(labels, {"zone": wanted}) for labels in ({"zone": "a"}, {"zone": "b"}, {})] == expected


def test_pack_fills_a_node_spread_takes_turns_strict_spread_takes_each_once() -> None:
    nodes, specs = [node("x", 4), node("y", 4)], hosts(1, 1, 1, 1)
    asked = demands(specs, 0)
    assert assign(specs, asked, nodes, "pack", free=True) == [0, 0, 0, 0]
    spread = assign(specs, asked, nodes, "spread", free=True)
    assert spread is not None
    assert sorted(spread) == [0, 0, 1, 1]
    assert assign(specs, asked, nodes, "strict_spread", free=True) is None
    assert sorted(assign(specs[:2], asked[:2], nodes, "strict_spread", free=True) or []) == [0, 1]


def test_a_way_is_found_though_the_first_try_fails() -> None:
    nodes, specs = [node("x", 5), node("y", 5)], hosts(3, 2, 2, 2, 1)
    placed = assign(specs, demands(specs, 0), nodes, "pack", free=True)
    assert placed is not None
    assert [sum(s.cpus or 0 for s, n in zip(specs, placed, strict=True) if n == k) for k in (0, 1)] == [5, 5]


def test_labels_and_size_pin_a_host() -> None:
    nodes = [node("x", 4, zone="a"), node("y", 1, zone="b")]
    specs = hosts(1, 1, 1, labels={2: {"zone": "b"}})
    assert assign(specs, demands(specs, 0), nodes, "pack", free=True) == [0, 0, 1]


def test_shares_shrink_until_all_fit_the_nodes() -> None:
    nodes = [node("x", 3, zone="a"), node("y", 1, zone="b")]
    specs = hosts(None, None, None, None, labels={i: {"zone": "b"} for i in range(4)})
    asked = share_out(specs, nodes, "pack")
    assert asked == [{"CPU": 0.2}] * 4  # an equal share of all, 1, would not fit; 0.2 of it does
    assert share_out(hosts(None, None), [node("x", 2, free=0)], "pack") == [{}, {}]
    assert share_out(hosts(None, None), [node("x", 1.5)], "pack") == [{"CPU": 0.75}] * 2


def test_what_no_node_has_is_said_with_what_each_has() -> None:
    nodes = [node("10.0.0.1", 2, zone="a"), node("10.0.0.2", 8)]
    with pytest.raises(ResourceError) as refused:
        check_fit(hosts(4, labels={0: {"zone": "a"}}), nodes, "pack")
    assert str(refused.value) == (
        "cluster: h0 asks for 4 CPU, zone=a, but no node has that:"
        " 10.0.0.1 has 2 CPU, zone=a; 10.0.0.2 has 8 CPU, zone=?"
    )
    with pytest.raises(ResourceError, match="the driver, the server and 1 party hosts on 3 nodes, but there are 2"):
        check_fit(hosts(1, 1, 1), nodes, "strict_spread")
    with pytest.raises(ResourceError, match="each of the 3 hosts fits a node, but not all of them together"):
        check_fit(hosts(2, 6, 6), nodes, "pack")
    check_fit(hosts(2, 6, 2), nodes, "pack")


def test_what_takes_too_long_to_decide_is_left_to_ray() -> None:
    nodes = [node(str(n), 10) for n in range(6)]
    specs = hosts(*[3.0001] * 18, 5.9)
    with pytest.raises(UndecidedError):
        assign(specs, demands(specs, 0), nodes, "pack", free=True)
    check_fit(specs, nodes, "pack")


def test_labels_and_strategy_of_the_configuration_reach_the_hosts(compose_job: Compose) -> None:
    plan = compose_job(
        "cluster=ray", "cluster.strategy=spread", "cluster.labels={disk:ssd}", "cluster.labels_driver={zone:a}",
        "++parties.2.labels={zone:'in(b,c)'}", "++parties.server.labels={zone:'!b'}", "cluster.wait=60",
    ).cluster  # fmt: skip
    assert (plan.strategy, plan.wait_s) == ("spread", 60)
    assert plan.driver.labels == {"zone": "a"}
    assert [dict(host.labels) for host in plan.hosts] == [
        {"disk": "ssd"}, {"disk": "ssd", "zone": "in(b,c)"}, {"disk": "ssd"}, {"disk": "ssd"}, {"zone": "!b"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["cluster.strategy=sprad"], "cluster.strategy: unknown 'sprad'; did you mean 'spread'?"),
        (["cluster.wait=-1"], "cluster.wait: "),
        (["cluster.labels=3"], "cluster.labels: expected a mapping from label to value, got 3"),
        (["++parties.1.labels={zone:'a b'}"], "parties.upper_left.labels.zone: expected a value, !value, in(a,b) or"),
        (["++parties.1.labels={_a:c}"], "parties.upper_left.labels: expected a label of letters"),
        (
            ["++parties.1.labels={zone:a}", "++parties.2.labels={zone:b}", "cluster.parties_per_actor=2"],
            "parties.upper_right.labels.zone: 'b', but a party of the same process asks for 'a'; expected one for all",
        ),
    ],
)
def test_bad_placement_is_refused_in_one_line(overrides: list[str], line: str, compose_job: Compose) -> None:
    with pytest.raises(ConfigError) as refused:
        compose_job("cluster=ray", *overrides)
    assert str(refused.value).startswith(line)


def test_the_check_command_tells_whether_a_run_fits_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "cluster=local", "cluster.num_cpus=2", "cluster.cpus_per_party=0.25"]) == 0
    told = capsys.readouterr().out
    assert "this machine" in told
    assert "flexray-digits-party-3-lower_left" in told
    assert told.rstrip().endswith("fits: 6 processes on 1 of 1 node")
    assert main(["check", "cluster=local", "cluster.num_cpus=2", "cluster.cpus_per_party=1"]) == 2
    assert "4 party hosts ask for 4 CPU, but there are 2 CPU" in capsys.readouterr().err
    assert main(["check", "clutser=local"]) == 2
    assert "flexray: clutser: " in capsys.readouterr().err
    assert main(["look"]) == 2
    assert capsys.readouterr().err == (
        "flexray: expected a command, got look; usage: python -m flexray.cluster check [key=value ...]\n"
    )


@pytest.mark.parametrize("strategy", ["pack", "spread"])
def test_thousands_of_hosts_are_placed(strategy: str) -> None:
    nodes = [node("x", 1500), node("y", 1500)]
    specs = hosts(*[1.0] * 2999)
    placed = assign(specs, demands(specs, 0), nodes, strategy, free=True)
    assert placed is not None
    assert sorted([placed.count(0), placed.count(1)]) == [1499, 1500]
    assert (
        assign([*specs, *hosts(1, 1)], demands([*specs, *hosts(1, 1)], 0), [node("z", 3000)], "pack", free=True) is None
    )
