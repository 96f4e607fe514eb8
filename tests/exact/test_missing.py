"""Samples that parties do not have: what stands in, that nobody trains on it, and that it is not sent."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from flexray.config.missing import with_missing
from flexray.core.errors import ConfigError, DataError
from flexray.data.base import Outline
from flexray.data.batches import BatchStream
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.inline import borrowed_torch
from flexray.engine.hosts.plan import place
from flexray.engine.parties.missing import NEWEST
from flexray.report.folders import read_run
from flexray.report.tables import runs_csv
from flexray.run.watch.summary import summary_rows
from flexray.tasks import Task
from helpers.jobs import Compose, Run, WriteBundle
from helpers.reference import World, local_round
from helpers.reference_cases import (
    ALGORITHMS,
    BATCH,
    LINEAR,
    MLP,
    PACE,
    ROUNDS,
    RULES,
    SEED,
    assert_same_parameters,
    copies,
    ids_of,
    overrides,
    participants,
    world_of,
)
from helpers.several_hosts import SeveralHosts
from helpers.small import ended, rounds_of

OFTEN = "missing.fraction={a:0.3,b:0.8}"
KINDS = ("zeros", "mean", "last", "learned")
OUTLINE = Outline(("a", "b"), {"train": 4000, "val": 0, "test": 2000}, Task("mse", 1), "synthetic")


def present_in(x: Experiment) -> np.ndarray:
    """Return which training samples [n, k] the parties have."""
    assert x.shared.outline.present is not None
    return x.shared.outline.present["train"]


def made(fraction: Any, test_fraction: Any = None, seed: int = 1) -> Outline:
    return with_missing({"missing": {"fraction": fraction, "test_fraction": test_fraction}}, OUTLINE, seed)


# Which ---------------------------------------------------------------------------------------------------------------


def test_what_is_missing_at_one_fraction_is_missing_at_any_higher() -> None:
    few, many = made([0.2, 0.5]).present, made(0.5).present
    assert few is not None
    assert many is not None
    for split, size in OUTLINE.sizes.items():
        assert few[split].shape == (size, 2)
        assert not (many[split] & ~few[split]).any()
        np.testing.assert_array_equal(few[split][:, 1], many[split][:, 1])
        assert not size or few[split].mean(axis=0) == pytest.approx([0.8, 0.5], abs=0.03)
    both = ~many["train"]
    assert (both[:, 0] & both[:, 1]).mean() == pytest.approx(0.25, abs=0.03)  # independent of each other
    assert (made(0.5, seed=2).present["train"] != many["train"]).any()  # type: ignore[index]


def test_training_and_test_samples_may_be_missing_by_themselves() -> None:
    test_only, train_only = made(0.0, {"a": 1}).present, made({"b": 0.3}, 0).present
    assert made(0.0).present is None
    assert test_only is not None
    assert train_only is not None
    assert test_only["train"].all()
    assert test_only["test"].all(axis=0).tolist() == [False, True]
    assert not test_only["test"][:, 0].any()
    assert train_only["train"].all(axis=0).tolist() == [True, False]
    assert train_only["test"].all()


# Numbers -------------------------------------------------------------------------------------------------------------


def stand_ins(kind: str, before: Tensor | None, own: Tensor) -> Tensor | None:
    """Return what stands in for a party's missing embeddings once these arrived; None: zeros."""
    if not len(own) or kind in ("zeros", "learned"):
        return before
    new = own[-1] if kind == "last" else own.mean(dim=0)
    return new if kind == "last" or before is None else (1 - NEWEST) * before + NEWEST * new


def run_flex(world: World, kind: str, has: Tensor, lr: Any, ids: Any) -> list[float]:
    """Flex-VFL on incomplete samples; return the losses."""
    vectors: list[Tensor | None] = [None] * len(world.parties)
    return [run_round(world, kind, vectors, has[ids(r)], ids(r), lr) for r in range(ROUNDS)]


def run_round(world: World, kind: str, vectors: list[Tensor | None], has: Tensor, batch: Tensor, lr: Any) -> float:
    tau, _ = PACE.schedule("flex")
    y, blocks = world.labels[batch], []
    rows = [has[:, k].nonzero().flatten() for k in range(len(world.parties))]
    own = [x[batch][here] for x, here in zip(world.features, rows, strict=True)]
    for k, model in enumerate(world.parties):
        with torch.no_grad():
            arrived = model(own[k])
        vector = vectors[k] = stand_ins(kind, vectors[k], arrived)
        block = torch.zeros(len(batch), arrived.shape[1], dtype=arrived.dtype)
        blocks.append((block if vector is None else block + vector).index_copy(0, rows[k], arrived))
    lacks = torch.cat([~has[:, k : k + 1].expand(block.shape) for k, block in enumerate(blocks)], dim=1)

    def loss(parts: list[Tensor]) -> Tensor:
        vector, whole = getattr(world.server, "stand_in", None), torch.cat(parts, dim=1)
        return world.loss(world.server(whole if vector is None else torch.where(lacks, vector, whole)), y)

    def loss_of(k: int) -> Tensor:
        new = blocks[k].index_copy(0, rows[k], world.parties[k](own[k]))
        return loss([*blocks[:k], new, *blocks[k + 1 :]])

    before, starts = float(loss(blocks).detach()), [p.detach().clone() for p in world.server.parameters()]
    local_round(world.server, world.rules[-1], lr[-1], tau[-1], partial(loss, blocks))
    after = [p.detach().clone() for p in world.server.parameters()]
    set_all(world.server, starts)
    for k, model in enumerate(world.parties):
        if len(rows[k]):
            local_round(model, world.rules[k], lr[k], tau[k], partial(loss_of, k))
    set_all(world.server, after)
    return before


def set_all(model: nn.Module, values: list[Tensor]) -> None:
    with torch.no_grad():
        for p, value in zip(model.parameters(), values, strict=True):
            p.copy_(value)


@pytest.mark.parametrize("server", [LINEAR, MLP], ids=["linear", "mlp"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_plain_loop(compose_job: Any, run_inline: Run, bundle: Path, kind: str, server: Any) -> None:
    override, rates = ALGORITHMS["flex"]
    rules = [RULES["momentum"], RULES["sgd"], RULES["momentum"], RULES["momentum"]]
    words = [*overrides(bundle, override, PACE, rates), OFTEN, f"missing.stand_in={kind}"]
    job = compose_job(*words, server=server, parties=participants(rules))
    world = world_of(job.experiment, bundle, rules, functional.cross_entropy)
    starts, ids = copies(world), ids_of(BatchStream(24, BATCH, SEED))
    has = torch.from_numpy(present_in(job.experiment))
    assert any(not has[ids(r), 1].any() for r in range(ROUNDS)), "a batch of which b has nothing is wanted"
    losses = run_flex(world, kind, has, rates.lr, ids)
    records = run_inline(job)
    assert [r.train_loss for r in rounds_of(records)] == pytest.approx(losses, rel=1e-10)
    assert_same_parameters(ended(without_vectors(records)), world.models(), starts)
    widths = np.array([2, 3, 4])
    sent = [int((has[ids(r)].numpy() * widths).sum()) * 8 for r in range(ROUNDS)]
    assert [sum(r.up_bytes) for r in rounds_of(records)] == sent
    theta = sum(p.numel() for p in world.server.parameters()) * 8
    assert [r.down_bytes for r in rounds_of(records)] == [(theta + n,) * 3 for n in sent]


def without_vectors(records: list[Any]) -> list[Any]:
    """Return records whose end has models alone."""
    states = {
        name: {key: value for key, value in state.items() if key != "stand_in" or name == "server"}
        for name, state in ended(records).states.items()
    }
    return [*records[:-1], dataclasses.replace(records[-1], states=states)]


@pytest.mark.parametrize("more", [
    "", "labels_at=server", "labels_at=c", "algo=vafl", "algo=vafl labels_at=b",
    "algo=fedonce algo.apart_rounds=5 algo.guest=b",
    "algo=less algo.pretrain_rounds=2 algo.component_rounds=2 algo.component_penalty=0.4 algo.feature_rounds=3",
])  # fmt: skip
def test_hosts_give_the_numbers_of_one_process(
    more: str, compose_small: Compose, run_inline: Run, write_bundle: WriteBundle
) -> None:
    words = (*more.split(), "model.dropout=0.2", "server=mlp", "missing.fraction={a:0.4,c:0.5}", "network.bits=6")
    path = write_bundle(dict.fromkeys("abcde", (3,)))
    for kind in ("mean", "learned"):
        job = compose_small(*words, f"missing.stand_in={kind}", path=path)
        alone = run_inline(job)
        with borrowed_torch():
            spread = list(make_driver(job.experiment, SeveralHosts(), place(5, 2)).run())
        assert spread[:-1] == alone[:-1]
        assert ended(spread).digests == ended(alone).digests


@pytest.mark.parametrize("more", ["missing.stand_in=mean", "missing.stand_in=learned", "labels_at=server"])
def test_stacks_beside_parties_that_lack_samples_change_nothing(
    more: str, compose_small: Compose, run_inline: Run, write_bundle: WriteBundle
) -> None:
    path = write_bundle(dict.fromkeys("abcde", (16,)), train=40)
    words = (more, "missing.fraction={a:0.4,c:0.5}", "model.hidden=[16]", "embedding=16", "dataset.batch_size=16")
    alone, off = (run_inline(compose_small(*words, f"stack={how}", path=path)) for how in ("exact", "off"))
    assert alone[0].stacked == 3  # type: ignore[union-attr]
    assert off[1:-1] == alone[1:-1]
    assert ended(off).digests == ended(alone).digests


def test_with_one_local_iteration_it_does_not_matter_where_labels_are(compose_small: Compose, run_inline: Run) -> None:
    words = ("algo=pbcd", OFTEN, "optimizer=sgd")
    one, *others = (ended(run_inline(compose_small(*words, f"labels_at={at}"))).states for at in ("all", "server", "c"))
    for other in others:
        for name, state in one.items():
            for key, value in state.items():
                np.testing.assert_allclose(value, other[name][key], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("learn", ["learn=true", "learn=false"])
@pytest.mark.parametrize("algo", ["algo=pbcd", "algo=vafl"])
def test_gradients_of_what_is_missing_are_not_sent(
    algo: str, learn: str, compose_small: Compose, run_inline: Run
) -> None:
    job = compose_small(algo, "labels_at=server", OFTEN, learn, "rounds=9")
    has, turns = present_in(job.experiment), [0] * 3
    streams = [BatchStream(24, 5, 0, "batches" if algo == "algo=pbcd" else f"turns-{k + 1}") for k in range(3)]
    for r, row in enumerate(rounds_of(run_inline(job))):
        there = range(3) if row.party is None else (row.party,)
        expected = [0] * 3
        for k in there:
            expected[k] = int(has[streams[k].batch(r if row.party is None else turns[k]).ids_b, k].sum()) * 24
            turns[k] += 1
        assert row.up_bytes == row.down_bytes == tuple(expected)


def test_a_party_that_has_nothing_of_a_batch_stays_as_it_was(compose_small: Compose, run_inline: Run) -> None:
    """Not even regularization moves it, and nothing is sent."""
    words = ("seed=3", "missing.fraction={b:0.8}", "optimizer.l2=0.5", "optimizer=momentum", "eval_every=1")
    job = compose_small(*words, "rounds=6")
    stream, has = BatchStream(24, 5, 3), present_in(job.experiment)
    empty = [not has[stream.batch(r).ids_b, 1].any() for r in range(6)]
    assert any(empty)
    rows = rounds_of(run_inline(job))
    digests = [ended(run_inline(compose_small(*words, f"rounds={r + 1}"))).digests["b"] for r in range(6)]
    for r in range(1, 6):
        assert (digests[r] == digests[r - 1]) == empty[r]
    assert [row.up_bytes[1] == 0 for row in rows] == empty


def test_one_sample_of_a_batch_goes_through_batch_normalization(compose_small: Compose, run_inline: Run) -> None:
    """Statistics of one sample are none: the running ones are used."""
    norm = "+parties.b.model._target_=helpers.ray_models.Normalized"
    for more in ((), ("labels_at=server",)):
        job = compose_small(norm, "missing.fraction={b:0.8}", *more)
        stream, has = BatchStream(24, 5, 0), present_in(job.experiment)
        assert 1 in [int(has[stream.batch(r).ids_b, 1].sum()) for r in range(12)]
        assert all(np.isfinite(r.train_loss) for r in rounds_of(run_inline(job)))


def test_a_fraction_of_test_samples_changes_no_training(compose_small: Compose, run_inline: Run) -> None:
    plain, tested = (run_inline(compose_small(*words)) for words in ((), ("missing.test_fraction={a:1}",)))
    assert rounds_of(plain) == rounds_of(tested)
    assert ended(plain).digests == ended(tested).digests
    assert plain != tested


def test_absent_parties_and_feedback_know_what_is_missing(compose_small: Compose, run_inline: Run) -> None:
    words = ("algo=efvfl", "absence.sample=2", OFTEN, "missing.stand_in=mean", "algo.local_iterations=2")
    job = compose_small(*words)
    rows, has = rounds_of(run_inline(job)), present_in(job.experiment)
    stream, shared = BatchStream(24, 5, 0), job.experiment.shared
    for r, row in enumerate(rows):
        n = has[stream.batch(r).ids_b].sum(axis=0)
        away = row.absent or ()
        assert row.up_bytes == tuple(
            0 if k in away or not n[k] else shared.wire(k).nbytes(int(n[k]), 3, 8) for k in range(3)
        )


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("missing.fraction=1", r"missing.fraction: expected a number in \[0, 1\), got 1"),
        ("missing.fraction={d:0.5}", "missing.fraction: unknown participant 'd'"),
        ("missing.test_fraction=[0,0,2]", r"missing.test_fraction\[2\]: expected a number from 0 to 1, got 2"),
        ("missing.stand_in=means", "missing.stand_in: unknown value 'means'; did you mean 'mean'"),
        ("missing.fraction=0.5 clock=wall timeout=0.1", "clock: parties lack samples, as in simulation alone"),
        ("missing.fraction=0.5 network.bandwidth=900", "network: messages of parties that lack samples are not timed"),
    ],
)
def test_what_cannot_be_is_refused(words: str, message: str, compose_small: Compose) -> None:
    with pytest.raises(ConfigError, match=message):
        compose_small(*words.split())


def test_a_party_without_training_samples_is_refused(compose_small: Compose) -> None:
    with pytest.raises(DataError, match="party 'b': has none of the 24 training samples; expected some"):
        compose_small("missing.fraction={b:0.9999}")


def test_the_server_learns_its_vector_and_parties_remember_theirs(compose_small: Compose, run_inline: Run) -> None:
    learned = ended(run_inline(compose_small(OFTEN, "missing.stand_in=learned"))).states
    assert learned["server"]["stand_in"].any()
    assert not any("stand_in" in learned[name] for name in "abc")
    mean = ended(run_inline(compose_small(OFTEN, "missing.stand_in=mean"))).states
    assert "stand_in" not in mean["server"]
    assert all(mean[name]["stand_in"].shape == (3,) for name in "abc")


def test_made_up_gaps_are_not_those_of_new_samples() -> None:
    config = {"missing": {"fraction": 0.5, "test_fraction": None}}
    assert with_missing(config, OUTLINE, 1, is_new=True) is OUTLINE
    given = dataclasses.replace(OUTLINE, present={s: np.ones((n, 2), np.bool_) for s, n in OUTLINE.sizes.items()})
    assert with_missing(config, given, 1, is_new=True).present is given.present
    both = with_missing(config, given, 1).present
    assert both is not None
    np.testing.assert_array_equal(both["train"], made(0.5).present["train"])  # type: ignore[index]


# The run folder and its report ---------------------------------------------------------------------------------------


def test_counts_by_party_in_summary_table_and_report(run_once: Callable[..., Path]) -> None:
    quiet = ("cluster=inline", "progress=false", "rounds=2", "model.hidden=[4]")
    gaps, whole = run_once(*quiet, "missing.fraction={lower_left:0.25}"), run_once(*quiet)
    summary = json.loads((gaps / "summary.json").read_text(encoding="utf-8"))
    counts = summary["samples_by_party"]
    assert counts["upper_left"] == {
        "train": {"has": 1258, "missing": 0}, "val": {"has": 180, "missing": 0}, "test": {"has": 359, "missing": 0},
    }  # fmt: skip
    lost = counts["lower_left"]["train"]["missing"]
    assert lost == pytest.approx(0.25 * 1258, abs=50)
    rows = dict(summary_rows(summary, gaps))
    assert rows["training samples missing, of 1,258"] == f"lower_left {lost}"
    assert "test samples missing, of 359" in rows
    plain = json.loads((whole / "summary.json").read_text(encoding="utf-8"))
    assert "samples_by_party" not in plain
    assert not any("missing" in name for name, _ in summary_rows(plain, whole))
    runs = [read_run(gaps, "gaps"), read_run(whole, "whole")]
    told = [row["missing"] for row in csv.DictReader(io.StringIO(runs_csv(runs, [])))]
    assert told == [f"upper_left 0.0%, upper_right 0.0%, lower_left {lost / 1258:.1%}, lower_right 0.0%", ""]
    assert "missing" not in runs_csv(runs[1:], [])
