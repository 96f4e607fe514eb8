"""Labels at the server alone: a gradient once per round, reused for all local iterations (FedBCD)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexray.engine.parties.group import PartyGroup
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
from helpers.several_hosts import assert_same_on_hosts
from helpers.small import NAMES, ended, rounds_of

AT_SERVER = "labels_at=server"


@pytest.mark.parametrize("absence", ["absence.probability=0", "absence.probability=[0.4,0.2,0.3]"])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("algo", [name for name in ALGORITHMS if not name.startswith("vafl")])
def test_it_is_the_plain_loop(
    compose_job: Any, run_inline: Run, bundle: Path, algo: str, server: str, absence: str
) -> None:
    override, rates = ALGORITHMS[algo]
    rules = [RULES["momentum"], RULES["all, clipped"], RULES["varying"], RULES["momentum and proximal"]]
    given = [*overrides(bundle, override, PACE, rates), AT_SERVER, absence]
    job = compose_job(*given, server=SERVERS[server], parties=participants(rules))
    compare(job, run_inline, bundle, algo, rules, rates, labels_at_server=True)


@pytest.mark.parametrize("server", ["linear", "mlp"])
def test_with_one_iteration_each_it_is_pbcd_with_labels_everywhere(
    server: str, compose_small: Compose, run_inline: Run
) -> None:
    words = ("algo=pbcd", f"server={server}", "lr=0.3")
    shared, alone = run_inline(compose_small(*words)), run_inline(compose_small(*words, AT_SERVER))
    for name, state in ended(shared).states.items():
        for key, value in state.items():
            other = ended(alone).states[name][key]
            assert np.abs(value - other).max() <= 1e-12 * np.abs(value).max(), (name, key)
    losses = [[record.train_loss for record in rounds_of(records)] for records in (shared, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    flex = [ended(run_inline(compose_small("lr=0.3", *more))).digests for more in ((), (AT_SERVER,))]
    assert flex[0] != flex[1], "with more iterations, a gradient that is reused is another"


def test_a_party_gets_the_gradient_and_nothing_else(compose_small: Compose, run_inline: Run) -> None:
    for record in rounds_of(run_inline(compose_small(AT_SERVER))):
        samples = 4 if record.round % 5 == 0 else 5
        assert record.up_bytes == record.down_bytes == (samples * 3 * 8,) * 3


def test_a_link_is_charged_for_the_gradient(compose_small: Compose, run_inline: Run) -> None:
    link = ("network.t_comm=2", "network.bandwidth={a:60}")
    assert rounds_of(run_inline(compose_small(AT_SERVER, *link)))[0].comm_units == 2 + 2 * 5 * 3 * 8 / 60


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_parties_hold_neither_labels_nor_the_servers_model(
    algo: str, compose_small: Compose, run_inline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = []
    connect = PartyGroup.connect

    def noted(self: PartyGroup, widths: Any) -> int:
        groups.append(self)
        return connect(self, widths)

    monkeypatch.setattr(PartyGroup, "connect", noted)
    run_inline(compose_small(f"algo={algo}", AT_SERVER))
    (group,) = groups
    assert len(group._labels) == len(group._labels_b) == 0
    assert list(group._fusion.head.parameters()) == []


def test_vafl_has_labels_at_the_server_anyway(compose_small: Compose, run_inline: Run) -> None:
    words = ("algo=vafl", "model.dropout=0.2")
    shared, alone = run_inline(compose_small(*words)), run_inline(compose_small(*words, AT_SERVER))
    assert shared[:-1] == alone[:-1]
    assert ended(shared).digests == ended(alone).digests


@pytest.mark.parametrize("algo", NAMES)
def test_hosts_give_the_numbers_of_one_process(algo: str, compose_small: Compose, write_bundle: WriteBundle) -> None:
    path = write_bundle(dict.fromkeys("abcde", (3,)))
    job = compose_small(
        f"algo={algo}", "model.dropout=0.2", "server=mlp", "server.dropout=0.1", AT_SERVER, "network.noise=0.1",
        "absence.probability={a:0.4,c:0.5}", path=path,
    )  # fmt: skip
    assert_same_on_hosts(job)


def test_a_divergence_is_seen(compose_small: Compose, run_inline: Run) -> None:
    divergence = ended(run_inline(compose_small(AT_SERVER, "lr=1e18", "server=mlp"))).divergence
    assert divergence is not None
    assert divergence.round <= 2
