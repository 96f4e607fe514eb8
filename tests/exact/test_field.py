"""Algorithms of other papers against loops written from those papers, and what they promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from flexray.core.errors import ConfigError
from flexray.core.links import Wire
from flexray.core.messages import Snapshot
from flexray.engine.driver.make import make_driver
from flexray.engine.driver.snapshots import Saves
from flexray.engine.hosts.inline import InProcess, borrowed_torch
from flexray.engine.parties.apart import first_targets
from flexray.engine.parties.last_sent import LastSent
from flexray.engine.parties.silo import clients_of
from helpers.jobs import Compose, Run
from helpers.published import Lasso, Split, cvfl, efvfl, fedbcd, fedonce, less, quantized, split_learning, tdcd, top_k
from helpers.published_cases import case_of
from helpers.reference_cases import SEED, SERVERS
from helpers.several_hosts import assert_same_on_hosts
from helpers.small import FIELD, ended, rounds_of

ROUNDS = 50
PUBLISHED: dict[str, Callable[..., list[float]]] = {
    "algo=split": split_learning,
    "algo=fedbcd": lambda model, batches: fedbcd(model, batches, 5),
    "algo=fedbcd algo.local_iterations=2": lambda model, batches: fedbcd(model, batches, 2),
    "algo=cvfl": lambda model, batches: cvfl(model, batches, 5, quantized(4, 0.5)),
    "algo=cvfl network.bits=null": lambda model, batches: cvfl(model, batches, 5, top_k(0.5)),
    "algo=efvfl": lambda model, batches: efvfl(model, batches, 1, top_k(0.1)),
    "algo=efvfl network.bits=2 network.top_k=0.6": lambda model, batches: efvfl(model, batches, 1, quantized(2, 0.6)),
    "algo=efvfl algo.local_iterations=3 network.top_k=0.6": lambda model, batches: efvfl(model, batches, 3, top_k(0.6)),
}


def fedonce_of(local: int, apart: int, guest: int | None = None) -> Callable[..., list[float]]:
    def run(model: Split, batches: list[Tensor]) -> list[float]:
        widths = [block.shape[1] for block in model.embed(slice(None))]
        targets = [torch.from_numpy(first_targets(SEED, k + 1, len(model.labels), o)) for k, o in enumerate(widths)]
        return fedonce(model, batches, local, apart, targets, guest)

    return run


PUBLISHED |= {
    "algo=fedonce algo.apart_rounds=20": fedonce_of(1, 20),
    "algo=fedonce algo.apart_rounds=30 algo.local_iterations=3": fedonce_of(3, 30),
    "algo=fedonce algo.apart_rounds=20 algo.guest=b": fedonce_of(1, 20, 1),
}


SELECTION = (
    "algo=less algo.pretrain_rounds=10 algo.component_rounds=10 algo.component_lr=0.1"
    " algo.feature_rounds=15 algo.feature_lr=0.1"
)
PUBLISHED |= {
    f"{SELECTION} algo.component_penalty=0.4 algo.feature_penalty=0.2": lambda model, batches: less(
        model, batches, 1, 10, Lasso(10, 0.1, 0.4), Lasso(15, 0.1, 0.2)
    ),
    f"{SELECTION} algo.component_penalty=0.55 algo.feature_penalty=0.2": lambda model, batches: less(
        model, batches, 1, 10, Lasso(10, 0.1, 0.55), Lasso(15, 0.1, 0.2)
    ),
    f"{SELECTION} algo.local_iterations=2 algo.feature_penalty=0.01": lambda model, batches: less(
        model, batches, 2, 10, Lasso(10, 0.1, 0.02), Lasso(15, 0.1, 0.01)
    ),
}


PUBLISHED |= {
    f"algo=tdcd algo.local_iterations={local} algo.clients={many}": lambda model, batches, local=local, many=many: tdcd(
        model, batches, local, torch.from_numpy(clients_of(SEED, len(model.labels), many))
    )
    for local, many in ((5, 3), (2, 8))
}

LESS = (
    "algo=less algo.pretrain_rounds=2 algo.component_rounds=2 algo.component_lr=0.1 algo.component_penalty=2"
    " algo.feature_rounds=3 algo.feature_lr=0.3 algo.feature_penalty=0.5"
)


@pytest.mark.parametrize(
    ("words", "server"),
    [(words, "not foldable" if k % 2 and "less" not in words else "mlp") for k, words in enumerate(PUBLISHED)],
)
def test_fifty_rounds_are_those_of_the_paper(
    words: str, server: str, compose_job: Compose, run_inline: Run, bundle: Path
) -> None:
    case = case_of(compose_job, bundle, words.split(), server)
    losses = PUBLISHED[words](case.model, case.batches)
    case.assert_same(run_inline(case.job), losses)


def test_rounds_wait_for_everybodys_iterations(compose_small: Compose, run_inline: Run) -> None:
    slow = ("speeds=uniform", "speeds.unit_time=[1,2,3,1]", "network.t_comm=10")
    for algo, tau in {"split": 1, "fedbcd": 5, "cvfl": 5, "efvfl": 1}.items():
        for record in rounds_of(run_inline(compose_small(f"algo={algo}", *slow, "rounds=2"))):
            assert (record.tau, record.duration) == ((tau,) * 4, 3 * tau + 10), algo


def test_fedonce_sends_once(compose_small: Compose, run_inline: Run) -> None:
    words = ("algo=fedonce", "algo.apart_rounds=2", "algo.local_iterations=2", "rounds=4", "network.t_comm=10",
             "speeds=uniform", "speeds.unit_time=[1,2,3,5]")  # fmt: skip
    apart, handover, *joint = rounds_of(run_inline(compose_small(*words)))
    assert (apart.tau, apart.duration, apart.sent_bytes) == ((2, 2, 2, 0), 6, 0)
    assert (handover.duration, handover.up_bytes, handover.down_bytes) == (16, (24 * 3 * 8,) * 3, (0,) * 3)
    for record in joint:
        assert (record.tau, record.duration, record.sent_bytes, record.absent) == ((0, 0, 0, 2), 10, 0, (0, 1, 2))
    apart, handover, *joint = rounds_of(run_inline(compose_small(*words, "algo.guest=c")))
    assert (apart.tau, apart.duration, apart.absent) == ((2, 2, 0, 0), 4, (2,))
    assert (handover.duration, handover.up_bytes) == (14, (24 * 3 * 8, 24 * 3 * 8, 0))
    for record in joint:
        assert (record.tau, record.duration, record.absent) == ((0, 0, 2, 2), 20, (0, 1))
        assert record.up_bytes == record.down_bytes == (0, 0, 5 * 3 * 8)
    links = ("network.bandwidth=8", "network.latency=1")
    for more, batch in (((links[0],), 0), (links, 2)):
        records = rounds_of(run_inline(compose_small(*words, "algo.guest=c", "network.t_comm=0", *more)))
        assert [r.duration - r.comm_units for r in records] == [4, 4, 10, 10]
        assert [r.comm_units for r in records] == [0, batch + 24 * 3, *[batch + 2 * 5 * 3] * 2], more


@pytest.mark.parametrize("words", ["algo=fedonce algo.apart_rounds=5", f"{LESS} algo.component_penalty=1e-9"])
def test_phases_take_the_same_time_if_nothing_is_learned(words: str, compose_small: Compose, run_inline: Run) -> None:
    jobs = [compose_small(*words.split(), "network.top_k=0.4", f"learn={word}") for word in ("true", "false")]
    for one, other in zip(*map(rounds_of, map(run_inline, jobs)), strict=True):
        assert replace(one, train_loss=0.0) == replace(other, train_loss=0.0)


def test_less_sends_and_trains_what_is_left(compose_small: Compose, run_inline: Run) -> None:
    words = (*LESS.split(), "network.t_comm=10", "speeds=uniform", "speeds.unit_time=[1,2,3,5]", "server=linear",
             "optimizer=adam", "optimizer.keep_state=true", "rounds=12")  # fmt: skip
    records = run_inline(compose_small(*words))
    first, second, handover, c1, c2, f1, f2, f3, *rest = rounds_of(records)
    full = (5 * 3 * 8,) * 3
    for record in (first, second):
        assert (record.tau, record.duration, record.up_bytes, record.down_bytes) == ((1,) * 4, 15, full, full)
    assert (handover.tau, handover.duration, handover.up_bytes) == ((0,) * 4, 10, (24 * 3 * 8,) * 3)
    for record in (c1, c2):
        assert (record.tau, record.duration, record.sent_bytes) == ((0, 0, 0, 1), 5, 0)
        assert record.lr[-1] == 0.1
    for record in (f1, f2, f3):
        assert (record.tau, record.duration, record.sent_bytes) == ((1, 1, 1, 0), 3, 0)
        assert record.lr[0] == 0.3
    states = ended(records).states
    left = (states["server"]["weight"] != 0).any(0).reshape(3, 3).sum(1)
    assert 0 < left.sum() < 9
    assert [r.up_bytes for r in rest] == [tuple(n * 8 * left) for n in (5, 4, 5, 5)] == [r.down_bytes for r in rest]
    features = [(states[name]["0.weight"] != 0).any(0) for name in "abc"]
    assert 0 < sum(map(np.sum, features)) < sum(map(len, features))


def test_less_needs_linear_layers(compose_job: Compose, run_inline: Run, bundle: Path) -> None:
    message = "the algo drops inputs of a first linear layer, and its model, .*, has none that is trained; expected one"
    other = SERVERS["not foldable"]
    for name, nodes in {"server": {"server": other}, "b": {"parties": {"b": {"model": other}}}}.items():
        job = compose_job("algo=less", "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=5", **nodes)
        with pytest.raises(ConfigError, match=f"^{name}: {message} such as mlp or linear"):
            run_inline(job)


def test_silos_of_one_client_are_parties(compose_small: Compose, run_inline: Run) -> None:
    silos = compose_small("algo=tdcd", "algo.clients=1", "model.dropout=0.1")
    parties = compose_small("algo=cvfl", "network.top_k=1", "network.bits=null", "model.dropout=0.1")
    assert ended(run_inline(silos)).digests == ended(run_inline(parties)).digests


def test_clients_go_by_the_servers_gradient(compose_small: Compose, run_inline: Run) -> None:
    """With one iteration that is the one that they would compute; also where samples are missing, or few."""
    words = ("algo=tdcd", "algo.local_iterations=1", "algo.clients=3", "missing.fraction={a:0.4}", "clip_norm=0.5")
    own, given = (ended(run_inline(compose_small(*words, f"labels_at={where}"))) for where in ("all", "server"))
    for name, state in own.states.items():
        for key, value in state.items():
            assert np.abs(value - given.states[name][key]).max() <= 1e-12 * np.abs(value).max(), (name, key)


def test_split_learning_is_p_bcd_with_labels_at_the_server(compose_small: Compose, run_inline: Run) -> None:
    one, other = (run_inline(compose_small(*words)) for words in (["algo=split"], ["algo=pbcd", "labels_at=server"]))
    assert one[:-1] == other[:-1]
    assert ended(one).digests == ended(other).digests == ended(run_inline(compose_small(
        "algo=fedbcd", "algo.local_iterations=1"
    ))).digests  # fmt: skip


def test_without_compression_nothing_is_fed_back(compose_small: Compose, run_inline: Run) -> None:
    for more in ((), ("absence.sample=2",)):
        fed = compose_small("algo=efvfl", "network.top_k=1", *more)
        assert ended(run_inline(fed)).digests == ended(run_inline(compose_small("algo=pbcd", *more))).digests


def test_a_compressed_difference_has_the_bytes_of_compressed_embeddings(
    compose_small: Compose, run_inline: Run
) -> None:
    words = ("network.top_k=0.3", "network.bits=4", "embedding=8")
    plain, fed = (rounds_of(run_inline(compose_small("algo=pbcd", *words, f"network.error_feedback={word}")))
                  for word in ("false", "true"))  # fmt: skip
    assert [(r.up_bytes, r.down_bytes) for r in plain] == [(r.up_bytes, r.down_bytes) for r in fed]
    assert plain[-1].train_loss != fed[-1].train_loss


def test_what_a_message_loses_comes_with_the_next() -> None:
    draw = np.random.default_rng(1)
    block_bo, ids_b = draw.normal(size=(3, 8)), np.array([4, 0, 2])
    for wire in (Wire(top_k=0.25), Wire(bits=3)):
        last = LastSent(np.zeros((5, 8)), feedback=True)
        errors = []
        for _ in range(4):
            arrived_bo = last.send(ids_b, block_bo, lambda message, wire=wire: wire.send(message, 0))
            errors.append(float(np.abs(arrived_bo - block_bo).max()))
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < 0.002, wire  # of top-k, all four quarters are there
        assert not last.of(np.array([1, 3])).any()


@pytest.mark.parametrize(
    "words",
    [
        *(f"algo={name}" for name in FIELD),
        "algo=vafl network.error_feedback=true",
        "algo=fedonce algo.apart_rounds=5",
        f"{LESS} rounds=10",
        "algo=tdcd algo.local_iterations=2",
    ],
)
def test_hosts_give_the_numbers_of_one_process(words: str, compose_small: Compose) -> None:
    more = ("model.dropout=0.2", "network.top_k=0.4", "network.noise=0.01")
    sample = () if "vafl" in words else ("absence.sample=2",)
    assert_same_on_hosts(compose_small(*words.split(), *more, *sample), (1, 2))


def test_sender_and_server_keep_the_same_surrogates_in_vafl(compose_small: Compose) -> None:
    job = compose_small("algo=vafl", "network.error_feedback=true", "network.top_k=0.4", "rounds=40")
    with borrowed_torch():
        driver = make_driver(job.experiment, InProcess(), job.cluster.placement)
        (saved,) = (record for record in driver.run(Saves(at_end=True)) if isinstance(record, Snapshot))
    table = saved.participants["server"].arrays["table.embeddings"]
    for k, name in enumerate("abc"):
        differs = np.flatnonzero((table[:, 3 * k : 3 * k + 3] != saved.participants[name].arrays["last_sent"]).any(1))
        on_its_way = job.experiment.shared.turns(k + 1).batch(saved.driver["turn"][k]).ids_b
        assert 0 < len(differs) <= len(on_its_way), name
        assert set(differs) <= set(on_its_way), name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("algo=split labels_at=all", "labels_at: SplitLearning leaves the labels with one participant"),
        ("algo=fedbcd labels_at=all", "labels_at: FedBCD leaves the labels with one participant"),
        ("algo=efvfl network.error_feedback=false", "network.error_feedback: EFVFL sends what changed; expected true"),
        ("algo=cvfl algo.local_iterations=0", "algo.local_iterations: expected a whole number of at least 1, got 0"),
        ("algo=fedonce labels_at=all", "labels_at: FedOnce leaves the labels with one participant"),
        ("algo=fedonce algo.apart_rounds=0", "algo.apart_rounds: expected a whole number of at least 1, got 0"),
        ("algo=fedonce algo.guest=d", "algo.guest: no party is called 'd'; expected one of: a, b, c"),
        ("algo=fedonce clock=wall", "clock: the algo leaves parties out of rounds"),
        ("algo=tdcd algo.clients=0", "algo.clients: expected a whole number"),
        ("algo=tdcd clock=wall", "clock: a party's clients compute side by side in simulation alone; expected virtual"),
        ("algo=less labels_at=all", "labels_at: LessVFL leaves the labels with one participant"),
        ("algo=less algo.feature_rounds=0", "algo.feature_rounds: expected a whole number of at least 1, got 0"),
        ("algo=less algo.component_penalty=0", "algo.component_penalty: expected a positive number, got 0"),
        ("algo=less clock=wall", "clock: the algo leaves parties out of rounds"),
        ("algo=fedbcd algo.local_iterations=1.5", "algo.local_iterations: expected a whole number of at least 1"),
    ],
)
def test_what_would_be_another_algorithm_is_refused(words: str, message: str, compose_small: Compose) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        compose_small(*words.split())
