"""A run that goes on from a snapshot gives the records and digests of one that was never interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flexray.config.job import Job
from flexray.core.messages import Ended, Record, Snapshot
from flexray.engine.driver.make import make_driver
from flexray.engine.driver.snapshots import Saves
from flexray.engine.hosts.inline import InProcess, borrowed_torch
from helpers.jobs import Compose, Run, WriteBundle
from helpers.small import ended

ALGORITHMS = ("flex", "adaptive", "sync_min", "sync_max", "pbcd", "vafl")
EVERY = Saves(every=1, at_end=True)


def saved_run(job: Job, saves: Saves = EVERY, since: Snapshot | None = None) -> list[Record]:
    with borrowed_torch():
        driver = make_driver(job.experiment, InProcess(), job.cluster.placement)
        return list(driver.run(saves, since))


def through_json(snapshot: Snapshot) -> Snapshot:
    parts = {k: replace(p, notes=json.loads(json.dumps(p.notes))) for k, p in snapshot.participants.items()}
    return replace(snapshot, driver=json.loads(json.dumps(snapshot.driver)), participants=parts)


def plain(records: list[Record]) -> list[Record]:
    return [r for r in records if not isinstance(r, Snapshot | Ended)]


def assert_goes_on_from_anywhere(make: Callable[[], Job], run_inline: Run) -> None:
    expected = run_inline(make())
    records = saved_run(make())
    assert plain(records) == plain(expected)
    assert ended(records).digests == ended(expected).digests
    snapshots = [(i, r) for i, r in enumerate(records) if isinstance(r, Snapshot)]
    assert [s.round for _, s in snapshots] == list(range(1, ended(expected).rounds + 1))
    for place, snapshot in snapshots:
        again = saved_run(make(), Saves(), through_json(snapshot))
        assert plain(again) == plain([records[0], *records[place:]]), snapshot.round
        assert ended(again).digests == ended(expected).digests, snapshot.round


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_goes_on_from_any_round(
    algo: str, compose_job: Compose, run_inline: Run, write_bundle: WriteBundle
) -> None:
    path = write_bundle()
    overrides = (
        f"algo={algo}", "dataset=bundle", f"dataset.path={path}", "dataset.batch_size=7", "rounds=6", "eval_every=4",
        "speeds=google_mean", "server=mlp", "server.dropout=0.3", "target=0.2", "lr_decay.milestones=[30]",
        "++parties.b.model._target_=helpers.ray_models.Normalized", "++parties.c.model.dropout=0.2",
    )  # fmt: skip
    more = ("adaptive.weighted=false", "adaptive.first=dummy") if algo == "adaptive" else ()
    assert_goes_on_from_anywhere(lambda: compose_job(*overrides, *more), run_inline)


@pytest.mark.parametrize("algo", ["adaptive", "vafl", "vafl algo.max_ahead=1"])
def test_messages_on_shared_links_go_on_from_any_round(algo: str, compose_small: Compose, run_inline: Run) -> None:
    overrides = (
        *f"algo={algo}".split(), "speeds=google_mean", "rounds=7", "network.latency={b:1,default:2}", "network.up=40",
        "network.shared={lan:{up:50,parties:[a,b]},wan:{up:60,down:90}}", "network.jitter=0.5", "network.loss={c:0.3}",
    )  # fmt: skip
    assert_goes_on_from_anywhere(lambda: compose_small(*overrides), run_inline)


@pytest.mark.parametrize("name", ["Adam", "Adagrad", "Rprop"])
@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_moments_that_outlive_a_round_are_saved(
    algo: str, name: str, compose_job: Compose, run_inline: Run, bundle: Any
) -> None:
    overrides = (
        f"algo={algo}", "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=8", "rounds=5",
        "optimizer=adam", f"optimizer.name={name}", "optimizer.keep_state=true",
    )  # fmt: skip
    assert_goes_on_from_anywhere(lambda: compose_job(*overrides), run_inline)


@pytest.mark.parametrize("words", ["algo.max_ahead=0", "algo.max_ahead=1 algo.server=free"])
def test_parties_that_wait_for_slower_ones_still_do(
    words: str, compose_job: Compose, run_inline: Run, bundle: Any
) -> None:
    overrides = (
        "algo=vafl", "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=8", "rounds=9", "eval_every=4",
        "network.t_comm=[1,5,2]",
    )  # fmt: skip
    assert_goes_on_from_anywhere(lambda: compose_job(*overrides, *words.split()), run_inline)


def test_turns_that_wait_for_the_driver_still_do(compose_small: Compose, run_inline: Run, tmp_path: Path) -> None:
    file = tmp_path / "measured.yaml"
    file.write_text("participants: {default: {iteration_s: 0.01}}\ndriver: {turn: 0.006}", encoding="utf-8")
    words = ("algo=vafl", "speeds=measured", f"speeds.path={file}", "speeds.utilization={b:0.5}", "rounds=9")
    assert_goes_on_from_anywhere(lambda: compose_small(*words), run_inline)


@pytest.mark.parametrize("where", ["b", "+d"])
@pytest.mark.parametrize("algo", ["adaptive", "vafl"])
def test_labels_at_a_party_need_nothing_saved(
    algo: str, where: str, compose_job: Compose, run_inline: Run, bundle: Any
) -> None:
    overrides = (
        f"algo={algo}", "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=7", "rounds=6", "eval_every=4",
        f"labels_at={where}", "server=mlp", "server.dropout=0.3",
        *(["absence.probability={a:0.4}"] if algo != "vafl" else []),
    )  # fmt: skip
    assert_goes_on_from_anywhere(lambda: compose_job(*overrides), run_inline)


@pytest.mark.parametrize("stand_in", ["mean", "last", "learned"])
@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_what_stands_in_for_missing_samples_is_saved(
    algo: str, stand_in: str, compose_small: Compose, run_inline: Run
) -> None:
    words = (f"algo={algo}", "rounds=7", "missing.fraction={a:0.3,b:0.8}", f"missing.stand_in={stand_in}")
    more = ("absence.probability={a:0.4}",) if algo == "flex" and stand_in == "mean" else ()
    assert_goes_on_from_anywhere(lambda: compose_small(*words, *more), run_inline)


def test_a_longer_run_can_go_on_where_a_shorter_one_ended(compose_job: Compose, run_inline: Run, bundle: Any) -> None:
    base = ("dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=8", "eval_every=4")
    for limit in ("rounds=5", "rounds=8", "max_time=160"):
        short = saved_run(compose_job(*base, limit), Saves(at_end=True))
        place = next(i for i, r in enumerate(short) if isinstance(r, Snapshot))
        longer = saved_run(compose_job(*base, "rounds=11"), Saves(), short[place])
        expected = run_inline(compose_job(*base, "rounds=11"))
        assert plain(short[1:place]) + plain(longer[1:]) == plain(expected[1:]), limit
        assert ended(longer).digests == ended(expected).digests
