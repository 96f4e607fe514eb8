"""Runs that must give the same numbers, by digest; who stays as it was; the order of records and exact times."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flexray.core.messages import Ended, EvalRecord, RoundRecord, Started
from flexray.engine.parties.party import Party
from flexray.engine.parties.state import digest
from helpers.several_hosts import assert_same_on_hosts

ALGORITHMS = ("flex", "adaptive", "sync_min", "sync_max", "pbcd", "vafl")
SMALL = ("model.hidden=[4]", "embedding=3", "dataset.batch_size=5", "rounds=5", "timeout=6", "eval_every=2")
FIVE = dict.fromkeys("abcde", (3,))
SIXTEEN = {f"p{k:02d}": (2,) for k in range(16)}


@pytest.fixture
def compose(compose_job, bundle):
    def small(algo: str, *overrides: str, path: Any = bundle) -> Any:
        return compose_job("dataset=bundle", f"dataset.path={path}", f"algo={algo}", *SMALL, *overrides)

    return small


@pytest.fixture
def digests(compose, run_inline):
    def run(algo: str, *overrides: str, **options: Any) -> dict[str, str]:
        return run_inline(compose(algo, *overrides, **options))[-1].digests

    return run


def first_digests(job: Any) -> dict[str, str]:
    shared = job.experiment.shared
    parties = [Party(spec, shared) for spec in job.experiment.parties]
    head = shared.build_head([party.width for party in parties])
    return {**{party.name: party.digest() for party in parties}, "server": digest(head)}


def rounds_of(records: list[Any]) -> list[RoundRecord]:
    return [record for record in records if isinstance(record, RoundRecord)]


def test_what_features_draw_depends_on_the_party_and_the_round_alone(compose):
    """Also beside a model that draws nothing."""
    job = compose("flex")
    batch = job.experiment.shared.batches().batch(3)
    sent = []
    for before in (1, 2):
        party = Party(job.experiment.parties[0], job.experiment.shared)
        load = party.features["train"].batch
        party.features["train"].batch = lambda *args, load=load: load(*args) + torch.rand(1)
        torch.manual_seed(before)
        sent.append(party.embed(batch, 3))
    assert sent[0].tolist() == sent[1].tolist()


def test_flex_with_one_iteration_each_is_pbcd(digests):
    one = digests("flex", "speeds=uniform", "timeout=1")
    assert one == digests("pbcd")
    assert one != digests("flex", "speeds=uniform", "timeout=2")


def test_with_equal_speeds_sync_min_and_sync_max_are_flex(digests):
    equal = "speeds.iterations=12"
    flex = digests("flex", equal)
    assert flex == digests("sync_min", equal) == digests("sync_max", equal)
    assert flex != digests("flex")


@pytest.mark.parametrize("server", ["linear", "mlp"])
def test_adaptive_with_constant_speeds_is_flex_with_its_rates(digests, run_inline, compose, server):
    rest = (f"server={server}", "optimizer=momentum", "speeds.iterations=[5,10,15,20]")
    adaptive = run_inline(compose("adaptive", *rest, "adaptive.A=[0.4,0.3,0.2,0.1]"))
    tau = (1, 3, 4, 6)
    w_bar = [(1 - 0.9**t) / (1 - 0.9) for t in tau]
    rates = rounds_of(adaptive)[0].lr
    assert rates == pytest.approx([a / (t * w) for a, t, w in zip((0.4, 0.3, 0.2, 0.1), tau, w_bar, strict=True)])
    assert {record.lr for record in rounds_of(adaptive)} == {rates}
    assert adaptive[-1].digests == digests("flex", *rest, f"lr={list(rates)}".replace(" ", ""))


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("shapes", [{"alone": (3,)}, SIXTEEN], ids=["one", "sixteen"])
def test_one_party_and_sixteen(compose, run_inline, write_bundle, shapes, algo):
    job = compose(algo, f"rounds={len(shapes) + 1}", "server=mlp", path=write_bundle(shapes))
    records = run_inline(job)
    before, after = first_digests(job), records[-1].digests
    assert list(after) == [*shapes, "server"]
    assert all(before[name] != after[name] for name in before)


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("frozen", [["b"], ["server"], ["a", "b", "c"]], ids=["party", "server", "parties"])
def test_the_frozen_stay_as_they_were(compose, run_inline, algo, frozen):
    job = compose(algo, f"frozen=[{','.join(frozen)}]")
    records = run_inline(job)
    before, after = first_digests(job), records[-1].digests
    assert [name for name in before if before[name] == after[name]] == frozen
    for record in rounds_of(records):
        assert all(record.tau[k] == 0 for k, name in enumerate(job.experiment.names) if name in frozen)
        assert record.train_loss > 0


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_frozen_parties_by_their_word(digests, algo):
    assert digests(algo, "frozen=parties") == digests(algo, "frozen=[a,b,c]")


def test_the_frozen_count_neither_in_min_and_max_nor_in_the_slowest(compose, run_inline):
    speeds = ("timeout=20", "speeds.iterations=[5,10,15,20]", "frozen=[a,server]")
    expected = {"sync_min": (10, 30.0), "sync_max": (15, 40.0), "pbcd": (1, 12.0)}
    for algo, (tau, duration) in expected.items():
        first = rounds_of(run_inline(compose(algo, *speeds)))[0]
        assert first.tau == (0, tau, tau, 0)
        assert first.duration == duration


@pytest.mark.parametrize(("dropout", "sizes"), [(0.0, (1, 2)), (0.2, (1, 3, 5))])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_hosts_give_the_numbers_of_one_process(compose, write_bundle, algo, dropout, sizes):
    options = (f"model.dropout={dropout}", "server=mlp", f"server.dropout={dropout / 2}")
    assert_same_on_hosts(compose(algo, *options, "rounds=7", path=write_bundle(FIVE)), sizes)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_run_can_be_repeated(compose, run_inline, algo, optimizer):
    overrides = (f"optimizer={optimizer}", *(["optimizer.keep_state=true"] if optimizer == "adam" else []))
    job = compose(algo, *overrides)
    first = run_inline(job)
    torch.manual_seed(1)
    assert run_inline(job)[-1].digests == first[-1].digests
    assert run_inline(compose(algo, *overrides))[-1].digests == first[-1].digests


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_another_seed_gives_other_numbers(digests, algo):
    one, other = digests(algo, "seed=1"), digests(algo, "seed=2")
    assert all(one[name] != other[name] for name in one)


def outline_of(records: list[Any]) -> list[tuple[Any, ...]]:
    """Return kind, number and time of every record."""
    kinds = {Started: "started", RoundRecord: "round", EvalRecord: "eval", Ended: "ended"}
    found: list[tuple[Any, ...]] = []
    for record in records:
        number = record.rounds if isinstance(record, Started | Ended) else record.round
        found.append((kinds[type(record)], number, getattr(record, "sim_time", None)))
    return found


def test_order_of_records_and_exact_times(compose, run_inline):
    records = run_inline(compose("flex", "network.t_comm=10"))
    assert outline_of(records) == [
        ("started", 5, None), ("eval", 0, 0.0), ("round", 1, 16.0), ("round", 2, 32.0), ("eval", 2, 32.0),
        ("round", 3, 48.0), ("round", 4, 64.0), ("eval", 4, 64.0), ("round", 5, 80.0), ("eval", 5, 80.0),
        ("ended", 5, 80.0),
    ]  # fmt: skip
    assert [record.start_units for record in rounds_of(records)] == [0.0, 16.0, 32.0, 48.0, 64.0]
    assert records[0].rounds_per_epoch == 5
    assert [record.epoch for record in records if isinstance(record, EvalRecord)] == [0.0, 0.4, 0.8, 1.0]


def test_times_do_not_drift(compose, run_inline):
    given = (
        "speeds=uniform",
        "speeds.unit_time=0.1",
        "network.t_comm=0.1",
        "timeout=0.7",
        "rounds=50",
        "eval_every=50",
    )
    records = run_inline(compose("flex", *given))
    assert [record.sim_time for record in rounds_of(records)] == [n * (0.7 + 0.1) for n in range(1, 51)]


def test_order_and_times_of_vafl(compose, run_inline):
    links = ("speeds.unit_time=[3,1,1.5,1]", "network.t_comm=[1,1,0.5]", "eval_every=3")
    records = run_inline(compose("vafl", "algo.server=free", *links))
    assert outline_of(records) == [
        ("started", 5, None), ("eval", 0, 0.0), ("round", 1, 2.0), ("round", 2, 2.0), ("round", 3, 4.0),
        ("eval", 3, 4.0), ("round", 4, 4.0), ("round", 5, 4.0), ("eval", 5, 4.0), ("ended", 5, 4.0),
    ]  # fmt: skip
    assert [record.party for record in rounds_of(records)] == [1, 2, 0, 1, 2]
    assert records[0].rounds_per_epoch == 15


def test_vafl_s_server_is_one_machine(compose, run_inline):
    slow = ("algo.server=queue", "speeds.unit_time={server:100,default:1}", "network.t_comm=0", "rounds=6")
    found = rounds_of(run_inline(compose("vafl", *slow)))
    assert [record.sim_time for record in found] == [101.0, 201.0, 301.0, 401.0, 501.0, 601.0]
    assert [record.party for record in found] == [0, 1, 2, 0, 1, 2]
    assert [record.duration for record in found] == [101.0, 201.0, 301.0, 300.0, 300.0, 300.0]
    idle = ("speeds.unit_time={server:0.25,default:1}", "network.t_comm=[1,2,3]", "rounds=4")
    assert [record.sim_time for record in rounds_of(run_inline(compose("vafl", *idle)))] == [2.25, 3.25, 4.25, 4.5]
    frozen = run_inline(compose("vafl", "frozen=[server]", *slow))
    assert [record.sim_time for record in rounds_of(frozen)] == [1.0] * 3 + [2.0] * 3


@pytest.mark.parametrize(
    ("algo", "words", "at"),
    [
        ("flex", ("eval_every_units=40",), [0, 3, 5]),  # rounds end at 16, 32, 48, 64, 80
        ("flex", ("eval_every_units=16",), [0, 1, 2, 3, 4, 5]),
        ("flex", ("eval_every_units=1",), [0, 1, 2, 3, 4, 5]),
        ("flex", ("eval_every_units=1e9",), [0, 5]),
        ("vafl", ("eval_every_units=3", "algo.server=free", "speeds.unit_time=1", "network.t_comm=1", "rounds=12"),
         [0, 4, 7, 12]),  # turns end at 2, 2, 2, 4, 4, 4, 6, 6, 6, 8, 8, 8
    ],
)  # fmt: skip
def test_evaluations_at_equal_times(algo, words, at, compose, run_inline):
    records = run_inline(compose(algo, "eval_every=null", *words))
    assert [record.round for record in records if isinstance(record, EvalRecord)] == at


def test_a_utilization_above_the_largest_counts_as_that(compose, caplog):
    words = ("speeds=uniform", "speeds.utilization={1:1,2:0.5,default:0.995}")
    found = compose("flex", *words).experiment.speeds.utilization(0, 0.0)
    assert found == (0.99, 0.5, 0.99, 0.99)
    assert caplog.messages == ["speeds: utilizations above speeds.max_utilization count as 0.99: a, c, server"]
    assert compose("flex", *words, "speeds.max_utilization=0.6").experiment.speeds.peaks == (0.6, 0.5, 0.6, 0.6)


def test_a_round_that_overruns_may_be_charged_as_the_paper_does(compose, run_inline):
    slow = ("speeds=uniform", "speeds.unit_time={1:100,default:1}", "network.t_comm=10", "rounds=2")
    ends = {}
    for algo in ("flex", "adaptive", "sync_min", "pbcd"):
        ends[algo] = [record.sim_time for record in rounds_of(run_inline(compose(algo, *slow)))]
        assert ends[algo] == [110.0, 220.0]
        ignoring = [record.sim_time for record in rounds_of(run_inline(compose(algo, *slow, "speeds.overrun=ignore")))]
        assert ignoring == ([110.0, 220.0] if algo == "pbcd" else [16.0, 32.0])


def test_evaluations_may_be_of_what_is_sent(compose, run_inline):
    """Noise moves the metrics of what is sent, and no parameter."""
    noisy, sent = (run_inline(compose("flex", "network.noise=3", f"eval_as_sent={word}")) for word in ("false", "true"))
    plain, seen = ([r.metrics["test_loss"] for r in records if isinstance(r, EvalRecord)] for records in (noisy, sent))
    assert all(a != b for a, b in zip(plain, seen, strict=True))
    assert noisy[-1].digests == sent[-1].digests
    clean = [run_inline(compose("flex", f"eval_as_sent={word}")) for word in ("false", "true")]
    assert clean[0][1] == clean[1][1]


@pytest.mark.parametrize(("max_time", "rounds"), [(47.9, 2), (48.0, 3), (16.0, 1)])
def test_no_round_ends_after_max_time(compose, run_inline, max_time, rounds):
    records = run_inline(compose("flex", f"max_time={max_time}"))
    assert outline_of(records)[-2:] == [("eval", rounds, rounds * 16.0), ("ended", rounds, rounds * 16.0)]
    assert len(rounds_of(records)) == rounds


def test_a_dummy_round_takes_its_time_and_changes_nothing_else(compose, run_inline):
    known = run_inline(compose("adaptive"))
    dummy = run_inline(compose("adaptive", "adaptive.first=dummy"))
    assert [r.sim_time - k.sim_time for r, k in zip(rounds_of(dummy), rounds_of(known), strict=True)] == [16.0] * 5
    assert dummy[-1].digests == known[-1].digests
