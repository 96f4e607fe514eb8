"""Labels at one party alone: predictions go there and gradients come back, and nothing else is told to anybody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexray.core.errors import ConfigError
from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.inline import borrowed_torch
from flexray.engine.hosts.plan import place
from helpers.audit import Audited, assert_private, holds
from helpers.jobs import Compose, Run, WriteBundle
from helpers.reference_cases import (
    ALGORITHMS,
    PACE,
    RULES,
    SERVERS,
    compare,
    overrides,
    participants,
)
from helpers.several_hosts import SeveralHosts, assert_same_on_hosts
from helpers.small import NAMES, ended, rounds_of

AT_B = "labels_at=b"
ADDED = "labels_at=+d"


@pytest.mark.parametrize("algo", NAMES)
def test_it_is_the_plain_loop(compose_job: Any, run_inline: Run, bundle: Path, algo: str) -> None:
    """Every round also waits for the round trip to the party with the labels."""
    override, rates = ALGORITHMS[algo]
    rules = [RULES["momentum"], RULES["all, clipped"], RULES["varying"], RULES["momentum and proximal"]]
    given = [*overrides(bundle, override, PACE, rates), AT_B, "absence.probability=[0.4,0,0.3]"]
    job = compose_job(*given, server=SERVERS["mlp"], parties=participants(rules))
    pace = replace(PACE, t_comm=tuple(units + PACE.t_comm[1] for units in PACE.t_comm))
    compare(job, run_inline, bundle, algo, rules, rates, pace, labels_at_party=True)


@pytest.mark.parametrize("where", ["b", "+d"])
@pytest.mark.parametrize("algo", ["pbcd", "vafl"])
def test_with_one_iteration_each_it_is_a_server_with_labels(
    algo: str, where: str, compose_small: Compose, run_inline: Run
) -> None:
    words = (f"algo={algo}", "server=mlp", "lr=0.3", "network.t_comm=0", "model.dropout=0.2", "server.dropout=0.1")
    server, party = (run_inline(compose_small(*words, f"labels_at={holder}")) for holder in ("server", where))
    for name, state in ended(server).states.items():
        for key, value in state.items():
            assert np.abs(value - ended(party).states[name][key]).max() <= 1e-12 * np.abs(value).max(), (name, key)
    losses = [[record.train_loss for record in rounds_of(records)] for records in (server, party)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    evaluated = [[vars(r) for r in records if "metrics" in vars(r)] for records in (server, party)]
    assert [pytest.approx(e["metrics"], rel=1e-12) for e in evaluated[0]] == [e["metrics"] for e in evaluated[1]]


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_predictions_and_their_gradients_count_on_the_link_of_the_labels(
    algo: str, compose_small: Compose, run_inline: Run
) -> None:
    link = ("network.t_comm=[1,2,3]", "network.bandwidth={b:60}")
    for record in rounds_of(run_inline(compose_small(f"algo={algo}", AT_B, *link, "dataset.drop_last=true"))):
        parties = range(3) if record.party is None else (record.party,)
        block, top = 5 * 3 * 8, 5 * 4 * 8
        expected = tuple(block * (k in parties) + top * (k == 1) for k in range(3))
        assert record.up_bytes == record.down_bytes == expected
        own = {0: 1.0, 1: 2 + 2 * block / 60, 2: 3.0}
        assert record.comm_units == pytest.approx(max(own[k] for k in parties) + 2 + 2 * top / 60, rel=1e-15)


SETTINGS = (
    *(f"algo={algo} absence.probability=[0.4,0,0.3] network.noise=0.1" for algo in NAMES),
    "algo=vafl speeds.unit_time={a:3,c:2,server:1.5}", "algo=vafl algo.max_ahead=0 network.bits=4",
    "algo=split", "algo=fedbcd", "algo=cvfl", "algo=efvfl", "algo=tdcd algo.clients=2", "algo=bsvfl",
    "missing.fraction=[0.4,0,0.3] missing.stand_in=learned network.bits=3", "timeout=auto", "rates=static",
)  # fmt: skip


@pytest.mark.parametrize("words", SETTINGS)
def test_a_party_with_labels_alone_changes_no_other_model(words: str, compose_small: Compose, run_inline: Run) -> None:
    common = ("server=mlp", "model.dropout=0.2", "server.dropout=0.1", "rounds=7", *words.split())
    own, added = (run_inline(compose_small(*common, where)) for where in (AT_B, ADDED))
    assert ended(added).states["d"] == {}
    assert {name: text for name, text in ended(added).digests.items() if name != "d"} == ended(own).digests
    for record in rounds_of(added):
        assert record.tau[3] == 0
        assert record.party != 3
        assert record.staleness is None or record.staleness[3] == 0
        assert 3 not in (record.absent or ())
        assert record.up_bytes[3] == record.down_bytes[3]  # predictions and their gradients


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_of_a_party_with_labels_alone_predictions_count(algo: str, compose_small: Compose, run_inline: Run) -> None:
    link = ("network.t_comm=[1,2,3,7]", "network.bandwidth={b:60,d:80}", "network.top_k=0.5", "dataset.drop_last=true")
    for record in rounds_of(run_inline(compose_small(f"algo={algo}", ADDED, *link))):
        parties = range(3) if record.party is None else (record.party,)
        sent, down, top = 5 * 2 * 8 + 3, 5 * 3 * 8, 5 * 4 * 8
        assert record.up_bytes == (*(sent * (k in parties) for k in range(3)), top)
        assert record.down_bytes == (*(down * (k in parties) for k in range(3)), top)
        own = {0: 1.0, 1: 2 + (sent + down) / 60, 2: 3.0}
        assert record.comm_units == pytest.approx(max(own[k] for k in parties) + 7 + 2 * top / 80, rel=1e-15)


def test_where_all_others_are_absent_the_labels_are_waited_for(compose_small: Compose, run_inline: Run) -> None:
    job = compose_small(ADDED, "absence.probability=0.9", "network.t_comm={d:4,default:3}")
    found = {record.absent: record.comm_units for record in rounds_of(run_inline(job))}
    assert found[0, 1, 2] == 4
    assert {units for absent, units in found.items() if absent != (0, 1, 2)} == {7}


@pytest.mark.parametrize("algo", ["laser server=laser", "fedonce", "less"])
def test_an_algorithm_that_needs_labels_at_the_server_refuses(algo: str, compose_small: Compose) -> None:
    with pytest.raises(ConfigError, match=r"^labels_at: (d may miss rounds|the server's model has a loss of its own)"):
        compose_small(*f"algo={algo}".split(), ADDED)


REFUSED = {
    ("labels_at=+b",): "labels_at: +b adds a party without features, and b has some; expected labels_at=b, or the name",
    ("labels_at=+all",): "labels_at: 'all' cannot name a party",
    (
        "labels_at=clinic",
    ): "labels_at: unknown value 'clinic'; expected one of: 1 to 3, a, all, b, c, server, or +clinic to",
    ("labels_at=+",): "labels_at: '' cannot name a party; expected letters, digits and '_'",
    ("labels_at=+server",): "labels_at: 'server' cannot name a party",
    (ADDED, "frozen=[a,b,c,server]"): "frozen: everybody is; expected at least one participant that computes",
    (ADDED, "network.bits={d:4}"): "network.bits: unknown participant 'd'",
    (ADDED, "absence.probability={d:0.5}"): "absence.probability: unknown participant 'd'",
    (ADDED, "missing.fraction={d:0.5}"): "missing.fraction: unknown participant 'd'",
    (ADDED, "network.jitter=0.1"): "labels_at: network.t_comm and network.bandwidth alone time the way of a prediction",
    (ADDED, "speeds=measured", "speeds.path=x"): "labels_at: seconds of a party without features are not known",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_a_party_with_labels_alone_cannot_have(words: tuple[str, ...], compose_small: Compose) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_small(*words)
    assert str(caught.value).startswith(REFUSED[words])


def test_a_party_with_labels_alone_has_no_model(compose_small: Compose) -> None:
    for key in ("model", "optimizer", "clip_norm", "lr_decay"):
        with pytest.raises(ConfigError, match=f"^parties.d.{key}: d has labels and no model; expected keys of its"):
            compose_small(ADDED, f"++parties.d.{key}=1")


@pytest.mark.parametrize(
    ("algo", "where"), [*((algo, "d") for algo in (*NAMES, "vafl")), ("adaptive", "+f"), ("vafl", "+f")]
)
def test_hosts_give_the_numbers_of_one_process(
    algo: str, where: str, compose_small: Compose, write_bundle: WriteBundle
) -> None:
    path = write_bundle(dict.fromkeys("abcde", (3,)))
    absence = ["absence.probability={a:0.4,c:0.5}"] if algo != "vafl" else []
    job = compose_small(
        f"algo={algo}", "model.dropout=0.2", "server=mlp", "server.dropout=0.1", f"labels_at={where}",
        "network.noise=0.1", "rounds=8", *absence, path=path,
    )  # fmt: skip
    assert_same_on_hosts(job)


class Watched(Audited, SeveralHosts):
    """Several processes, and all that goes between them."""


@pytest.mark.parametrize("where", ["server", "b", "+d"])
@pytest.mark.parametrize("algo", [*NAMES, "vafl"])
def test_no_message_has_labels_or_the_gradient_of_another(
    algo: str, where: str, compose_small: Compose, write_bundle: WriteBundle
) -> None:
    path = write_bundle(classes=None)
    job = compose_small(f"algo={algo}", f"labels_at={where}", "dataset.loss=mse", "rounds=6", "lr=0.1", path=path)
    runtime, spread = Watched(), place(len(job.experiment.parties), 1)
    with borrowed_torch():
        list(make_driver(job.experiment, runtime, spread).run())
    labels = np.concatenate([np.load(path / split / "labels.npy") for split in ("train", "test")])
    assert_private(runtime, spread, labels, {3} if where == "+d" else frozenset())
    for host, worker in ((h, w) for h, process in runtime.hosts.items() for w in process._workers.values()):
        has_labels = bool(len(getattr(worker, "_labels", ())))
        is_holder = host == (spread.server_host if where == "server" else spread.group_hosts[1 if where == "b" else 3])
        assert has_labels <= is_holder, (host, worker)


def test_the_audit_would_see_a_gradient_that_goes_astray(compose_small: Compose) -> None:
    job, runtime, spread = compose_small("labels_at=b", "rounds=1"), Watched(), place(3, 1)
    with borrowed_torch():
        list(make_driver(job.experiment, runtime, spread).run())
    assert_private(runtime, spread, np.array([0.5]))
    with pytest.raises(AssertionError, match="the gradient of party 1 went to host 1 in reuse"):
        assert_private(runtime, replace(spread, group_hosts=(0, 2, 1)), np.array([0.5]))


def test_the_audit_would_see_labels() -> None:
    labels = np.array([0.0, 0.1, 2.5])
    assert holds(b"..." + np.float64(2.5).tobytes(), labels)
    assert not holds(np.zeros(9).tobytes(), labels)


def test_a_divergence_is_seen_where_the_labels_are(compose_small: Compose, run_inline: Run) -> None:
    divergence = ended(run_inline(compose_small(AT_B, "lr=1e18", "server=mlp"))).divergence
    assert divergence is not None
    assert divergence.round <= 3
