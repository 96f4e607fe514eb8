"""Runs on links that differ by direction, are shared, vary, lose messages or follow a trace."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from flexray.config.job import Job
from flexray.config.schema import NetworkConfig
from flexray.core.errors import ConfigError, DataError
from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.inline import InProcess, borrowed_torch
from flexray.run.resume import changed_keys
from flexray.run.watch.timeline import round_events
from helpers.jobs import Compose, Run
from helpers.several_hosts import SeveralHosts
from helpers.small import ended, rounds_of

FINE = ("network.latency={b:1,default:2}", "network.up=40", "network.down={a:100,default:300}")
"""120 bytes up; down 120, in rounds 488 more."""
LAN = "network.shared={lan:{up:50,parties:[a,2]},all:{up:60,down:500}}"
ROUGH = ("network.jitter=0.5", "network.loss={c:0.3,default:0}")


def comm_units(job: Job, run_inline: Run) -> list[float]:
    return [record.comm_units for record in rounds_of(run_inline(job))]


def test_a_round_waits_for_the_last_message_up_and_the_last_one_down(compose_small: Compose, run_inline: Run) -> None:
    records = rounds_of(run_inline(compose_small(*FINE, "rounds=2")))
    down = records[0].down_bytes[0]
    assert records[0].up_bytes == (120, 120, 120)
    assert [r.comm_units for r in records] == [pytest.approx(2 + 120 / 40 + 2 + down / 100)] * 2
    assert records[0].party_comm_units == pytest.approx((7 + down / 100, 6 + down / 300, 7 + down / 300))
    assert [r.duration for r in records] == [6 + r.comm_units for r in records]
    own = [e for e in round_events(records[0], 1.0) if e["name"] == "communicate"]
    assert [e["dur"] for e in own] == pytest.approx([*(records[0].party_comm_units or ()), records[0].comm_units])


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_parties_that_share_a_link_take_longer(algo: str, compose_small: Compose, run_inline: Run) -> None:
    alone = comm_units(compose_small(f"algo={algo}", *FINE), run_inline)
    wide = comm_units(compose_small(f"algo={algo}", *FINE, "network.shared={wan:{up:1e9,down:1e9}}"), run_inline)
    narrow = comm_units(compose_small(f"algo={algo}", *FINE, "network.shared={wan:{up:50,down:50}}"), run_inline)
    assert wide == pytest.approx(alone, rel=1e-12)
    assert sum(narrow) > 1.2 * sum(alone)


def test_two_turns_share_a_link_while_both_send(compose_small: Compose, run_inline: Run) -> None:
    job = compose_small(
        "algo=vafl", "algo.server=free", "speeds=uniform", "speeds.unit_time={b:3,c:90,default:1}", "rounds=2",
        "network.latency=0", "network.up=60", "network.shared={wan:{up:60}}",
    )  # fmt: skip
    found = [(r.party, r.start_units, r.sim_time, r.comm_units) for r in rounds_of(run_inline(job))]
    # a sends 120 bytes from 1 on and is done at 3, when b begins; a computes until 4 and shares with b
    assert found == [(0, 0.0, 3.0, 2.0), (1, 0.0, pytest.approx(6.0), pytest.approx(3.0))]


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_time_alone_depends_on_what_is_drawn(algo: str, compose_small: Compose, run_inline: Run) -> None:
    words = (f"algo={algo}", "speeds=google_mean", *FINE, LAN)
    rough, again, other = (run_inline(compose_small(*words, *ROUGH, f"seed={seed}")) for seed in (1, 1, 2))
    assert rounds_of(rough) == rounds_of(again)
    assert [r.comm_units for r in rounds_of(rough)] != [r.comm_units for r in rounds_of(other)]
    assert len({r.comm_units for r in rounds_of(rough)}) > 6
    if algo == "flex":
        assert ended(rough).digests == ended(run_inline(compose_small("speeds=google_mean", "seed=1"))).digests


@pytest.mark.parametrize("algo", ["adaptive", "vafl"])
def test_it_is_the_same_however_the_parties_are_placed(algo: str, compose_small: Compose) -> None:
    job = compose_small(
        f"algo={algo}", "absence.probability={a:0.3}" if algo == "adaptive" else "seed=0", *FINE, LAN, *ROUGH
    )
    with borrowed_torch():
        one, several = (
            list(make_driver(job.experiment, runtime, placement).run())
            for runtime, placement in ((InProcess(), job.cluster.placement), (SeveralHosts(), job.cluster.placement))
        )
    assert rounds_of(one) == rounds_of(several)
    assert ended(one).digests == ended(several).digests


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_bytes_that_are_sent_again_count_again(algo: str, compose_small: Compose, run_inline: Run) -> None:
    job = compose_small(f"algo={algo}", "speeds=uniform", "network.loss={c:0.7}", "dataset.batch_size=6", "rounds=24")
    records = rounds_of(run_inline(job))
    own = [record for record in records if record.party in (None, 2)]
    found = [job.experiment.sends(index, None if algo == "flex" else 2) for index in range(len(own))]
    sends = [times[2] for times in found if times is not None]
    assert max(up for up, _ in sends) > 1
    assert [r.up_bytes[2] for r in own] == [6 * 3 * 8 * up for up, _ in sends]
    assert [r.down_bytes[2] / own[0].down_bytes[2] for r in own] == [down / sends[0][1] for _, down in sends]
    assert {r.up_bytes[0] for r in records} <= {0, 144}
    assert all(r.sent_bytes == sum(r.up_bytes) + sum(r.down_bytes) for r in records)
    for record, (up, down) in zip(own, sends, strict=True):  # a round trip of 10 each time
        assert record.comm_units == pytest.approx(10 * (up + down - 1))


def test_bandwidths_follow_a_trace(compose_small: Compose, run_inline: Run, tmp_path: Path) -> None:
    file = tmp_path / "network.csv"
    file.write_text("time,c,b,a\n0,1,2,1\n60,1,2,0.5\n120,0.25,2,4\n", encoding="utf-8")
    words = ("network.t_comm=0", "network.bandwidth=10", f"network.trace.path={file}", "rounds=4")
    found = rounds_of(run_inline(compose_small(*words)))
    assert found[0].up_bytes[0] + found[0].down_bytes[0] == 800
    assert [r.comm_units for r in found] == pytest.approx([80, 160, 320, 80])
    by_time = (
        "network.trace.advance=time",
        "network.trace.sample_units=86",
        "network.trace.at_end=hold",
    )
    found = rounds_of(run_inline(compose_small(*words, *by_time)))
    assert [r.comm_units for r in found] == pytest.approx([80, 160, 320, 320])


def test_records_of_older_versions_can_go_on() -> None:
    now = {"network": asdict(NetworkConfig())}
    before = {key: now["network"][key] for key in ("t_comm", "bandwidth", "clip", "noise", "top_k", "bits")}
    assert changed_keys({"network": before}, now, ()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("max_time=12.999", "max_time: expected at least 13 units (one turn)"),
        ("max_time=13", None),
    ],
)
def test_the_first_turn_to_arrive_must_fit(
    words: str, expected: str | None, compose_small: Compose, run_inline: Run
) -> None:
    slow = ("network.latency=0", "network.up=20", "network.shared={wan:{up:30}}", "speeds=uniform", "rounds=null")
    job = compose_small("algo=vafl", "algo.server=free", *slow, words)
    if expected is None:
        assert ended(run_inline(job)).rounds == 3
    else:
        with pytest.raises(ConfigError) as error:
            run_inline(job)
        assert str(error.value).startswith(expected)


REFUSED = {
    "network.latency=-1": "network.latency: expected a number of at least 0, got -1",
    "network.latency={a:1} network.t_comm=[1,2,3]": "network.latency: 'a' has a network.t_comm, too; expected one of",
    "network.latency={1:1} network.t_comm={a:3,default:1}": "network.latency: 'a' has a network.t_comm, too",
    "network.latency=1 network.t_comm=3": "network.latency: given for all parties, together with network.t_comm=3;",
    "network.up=0": "network.up: expected a positive number, got 0",
    "network.up={b:5} network.bandwidth=7": "network.up: 'b' has a network.bandwidth, too; expected one of them",
    "network.down=5 network.bandwidth={c:7}": "network.down: 'c' has a network.bandwidth, too; expected one of them",
    "network.jitter=1.5": "network.jitter: expected a number from 0 to 1, got 1.5",
    "network.loss=1": "network.loss: expected a number in [0, 1), got 1",
    "network.loss={d:0.1}": "network.loss: unknown participant 'd'",
    "network.shared=5": "network.shared: expected {name:{up:1000,parties:[...]}}, got 5",
    "network.shared={lan:5}": "network.shared.lan: expected keys such as up, down, parties, got 5",
    "network.shared={lan:{}}": "network.shared.lan: expected up or down, the bytes per unit of time that its parties",
    "network.shared={lan:{upp:5}}": "network.shared.lan.upp: unknown key; did you mean 'up'?",
    "network.shared={lan:{up:-5}}": "network.shared.lan.up: expected a positive number, got -5",
    "network.shared={lan:{up:5,parties:a}}": "network.shared.lan.parties: expected a list of parties, got 'a'",
    "network.shared={lan:{up:5,parties:[a,x]}}": "network.shared.lan.parties: unknown participant 'x'",
    "network.shared={lan:{up:5,parties:[a,1]}}": "network.shared.lan.parties: 'a' is given twice",
    "network.shared={lan:{up:5,parties:[server]}}": "network.shared.lan.parties: unknown participant 'server'",
    "network.shared={lan:{up:5}} algo=vafl clock=wall": "network.shared: turns share links on the virtual clock alone",
    "network.trace.path=nowhere.npy network.bandwidth=1": "nowhere.npy: no such trace file",
    "network.trace.path=synthetic64": "network.trace.path: scales bandwidths; expected network.bandwidth, network.up",
    "network.trace.path=synthetic64 network.up=5 network.trace.advance=time": "network.trace.sample_units: expected",
    "network.trace.path=synthetic64 network.up=5 network.trace.at_end=stop": "network.trace.at_end: unknown value",
    "network.trace.path=synthetic64 network.up=5 network.trace.machines=[a]": "network.trace.machines: expected 3",
    "network.trace.advance=time": "network.trace.advance: expected network.trace.path, too",
}


@pytest.mark.parametrize(("words", "expected"), REFUSED.items())
def test_mistakes_are_named(words: str, expected: str, compose_small: Compose) -> None:
    with pytest.raises((ConfigError, DataError)) as error:
        compose_small(*words.split())
    assert expected in str(error.value)


def test_a_link_of_a_trace_has_always_some_bandwidth(compose_small: Compose, tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array([[1.0, 5.0], [1.0, 0.0], [2.0, 1.0]]))
    with pytest.raises(DataError, match=r"machine 'machine_001', row 2, column 2: factor 0; expected a number above 0"):
        compose_small(f"network.trace.path={tmp_path / 't.npy'}", "network.bandwidth=10")


def test_a_trace_that_ends_says_so(compose_small: Compose, run_inline: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.ones((3, 2)))
    job = compose_small(f"network.trace.path={tmp_path / 't.npy'}", "network.up=10", "network.trace.at_end=error")
    with pytest.raises(ConfigError, match=r"network.trace.at_end: the trace .*t.npy has 2 samples, and sample 3 is"):
        run_inline(job)
