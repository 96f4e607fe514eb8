"""Partial participation: who misses which rounds, what stands in, and that it changes nothing else."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexray.algorithms.base import Moment, Plan, RoundAlgorithm
from flexray.core.absence import DrawnAbsences, RecordedAbsences
from flexray.engine.driver.experiment import Experiment
from flexray.engine.parties.last_sent import LastSent
from flexray.engine.parties.party import Party
from flexray.engine.parties.state import digest
from flexray.run.command import run_command
from helpers.drawing import image_folder
from helpers.jobs import Compose, Run, WriteBundle
from helpers.reference_cases import (
    ALGORITHMS,
    LINEAR,
    MLP,
    PACE,
    ROUNDS,
    RULES,
    compare,
    overrides,
    participants,
)
from helpers.several_hosts import assert_same_on_hosts
from helpers.small import NAMES, SMALL, rounds_of

ROUND_ALGORITHMS = [name for name in ALGORITHMS if not name.startswith("vafl")]
OFTEN = "absence.probability={a:0.4,b:0.6,c:0.3}"
IDLE = (0.0, 0.0, 0.0, 0.0)


def never(count: int) -> tuple[float, ...]:
    return (math.inf,) * count


def absences_of(x: Experiment) -> list[frozenset[int]]:
    return [x.absent(r, IDLE) for r in range(12)]


# Who -----------------------------------------------------------------------------------------------------------------


def test_chance_is_named_by_seed_round_and_party() -> None:
    drawn = DrawnAbsences(7, (0.3, 0.3, 0.0), never(3))
    found = [drawn.of(r, IDLE) for r in range(3000)]
    assert found == [DrawnAbsences(7, (0.3, 0.3, 0.0), never(3)).of(r, IDLE) for r in range(3000)]
    assert found != [DrawnAbsences(8, (0.3, 0.3, 0.0), never(3)).of(r, IDLE) for r in range(3000)]
    counts = [sum(k in away for away in found) / 3000 for k in range(3)]
    assert counts[:2] == pytest.approx([0.3, 0.3], abs=0.03)
    assert counts[2] == 0
    assert sum(len(away) == 2 for away in found) / 3000 == pytest.approx(0.09, abs=0.02)  # independent of each other
    assert drawn.possible == {0, 1}


def test_who_misses_a_round_misses_it_at_any_higher_probability() -> None:
    rare, often = (DrawnAbsences(1, (p,) * 4, never(4)) for p in (0.2, 0.5))
    assert all(rare.of(r, IDLE) <= often.of(r, IDLE) for r in range(200))


def test_a_party_misses_rounds_in_which_it_is_busier_than_the_threshold() -> None:
    busy = DrawnAbsences(1, (0.0,) * 3, (0.5, 1.0, math.inf))
    assert busy.possible == {0}
    assert busy.of(0, (0.5, 1.0, 1.0, 1.0)) == frozenset()
    assert busy.of(0, (0.500001, 1.0, 1.0, 1.0)) == {0}


def test_a_sample_has_so_many_parties_and_those_of_a_smaller_one() -> None:
    few, many, everybody = (DrawnAbsences(5, (0.0,) * 4, never(4), sample) for sample in (1, 3, 4))
    away = [few.of(r, IDLE) for r in range(2000)]
    assert all(len(few.of(r, IDLE)) == 3 and len(many.of(r, IDLE)) == 1 for r in range(200))
    assert all(many.of(r, IDLE) < few.of(r, IDLE) for r in range(200))
    assert [sum(k not in a for a in away) / 2000 for k in range(4)] == pytest.approx([0.25] * 4, abs=0.03)
    assert (few.possible, everybody.possible) == ({0, 1, 2, 3}, frozenset())
    assert not any(everybody.of(r, IDLE) for r in range(20))


def test_a_sample_is_drawn_before_others_miss_the_round() -> None:
    both, sample, chance = DrawnAbsences(5, (0.3,) * 3, never(3), 2), (0.0,) * 3, DrawnAbsences(5, (0.3,) * 3, never(3))
    for r in range(50):
        assert both.of(r, IDLE) == DrawnAbsences(5, sample, never(3), 2).of(r, IDLE) | chance.of(r, IDLE)


def test_recorded_ones_are_repeated() -> None:
    recorded = RecordedAbsences((frozenset(), frozenset({2}), frozenset({0, 2})))
    assert recorded.possible == {0, 2}
    assert [recorded.of(r, IDLE) for r in range(3)] == list(recorded.rounds)


def test_the_last_of_what_was_sent_of_a_sample_stands_in() -> None:
    last = LastSent(np.zeros((4, 2)))
    last.note(np.array([3, 1, 3]), np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    np.testing.assert_array_equal(last.of(np.array([0, 1, 3, 3])), [[0, 0], [2, 2], [3, 3], [3, 3]])


# Plans ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", NAMES)
def test_nobody_waits_for_the_absent(algo: str, compose_small: Compose) -> None:
    """a: 2 units, b: 3, c: 1, server 1.5 per iteration; t_o = 6; links of 5, 9 and 1."""
    speeds = ("speeds=uniform", "speeds.unit_time=[2,3,1,1.5]", "network.t_comm=[5,9,1]")
    algorithm = compose_small(f"algo={algo}", *speeds).experiment.algorithm
    assert not hasattr(algorithm, "turn_units")
    expected = {
        "flex": [((3, 2, 6, 4), 15), ((3, 0, 6, 4), 11), ((0, 0, 0, 4), 6)],
        "adaptive": [((3, 2, 6, 4), 15), ((3, 0, 6, 4), 11), ((0, 0, 0, 4), 6)],
        "sync_min": [((2, 2, 2, 2), 15), ((3, 0, 3, 3), 11), ((0, 0, 0, 4), 6)],
        "sync_max": [((6, 6, 6, 6), 27), ((6, 0, 6, 6), 17), ((0, 0, 0, 4), 6)],
        "pbcd": [((1, 1, 1, 1), 12), ((1, 0, 1, 1), 7), ((0, 0, 0, 1), 1.5)],
    }
    for away, (tau, duration) in zip(((), (1,), (0, 1, 2)), expected[algo], strict=True):
        plan = algorithm.plan(Moment(0, 0.0, IDLE, absent=frozenset(away)))  # type: ignore[call-arg, arg-type]
        assert (plan.tau, plan.duration_units) == (tau, duration)
        assert plan.lr == algorithm.plan(Moment(0, 0.0, IDLE)).lr  # type: ignore[call-arg, arg-type]


@pytest.mark.parametrize("algo", NAMES)
def test_a_round_in_which_nobody_computes_passes_with_its_timeout(algo: str, compose_small: Compose) -> None:
    algorithm = compose_small(f"algo={algo}", "frozen=[server]").experiment.algorithm
    plan = algorithm.plan(Moment(3, 0.0, IDLE, absent=frozenset({0, 1, 2})))  # type: ignore[call-arg, arg-type]
    assert (plan.tau, plan.duration_units, plan.comm_units) == ((0, 0, 0, 0), 6, 0)


@pytest.mark.parametrize("algo", ["sync_max", "pbcd"])
def test_a_party_without_free_cpu_may_be_absent_instead_of_waited_for(
    algo: str, compose_small: Compose, run_inline: Run
) -> None:
    records = run_inline(
        compose_small(f"algo={algo}", "speeds=uniform", "speeds.utilization={b:1}", "absence.above=0.9")
    )
    assert all(r.absent == (1,) and r.tau[1] == 0 for r in rounds_of(records))


# Numbers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [LINEAR, MLP], ids=["linear", "mlp"])
@pytest.mark.parametrize("algo", ROUND_ALGORITHMS)
def test_it_is_the_plain_loop(compose_job: Any, run_inline: Run, bundle: Path, algo: str, server: Any) -> None:
    override, rates = ALGORITHMS[algo]
    rates = dataclasses.replace(rates, milestones=(9, 30), factor=0.5)
    rules = [RULES["momentum"], RULES["all, clipped"], RULES["varying"], RULES["momentum"]]
    given = [*overrides(bundle, override, PACE, rates), "absence.probability=[0.5,0.2,0.7]"]
    job = compose_job(*given, server=server, parties=participants(rules))
    away = [job.experiment.absent(r, IDLE) for r in range(ROUNDS)]
    assert len(set(away)) >= 5
    assert away[0], "one whose first round comes later is wanted; choose other numbers"
    both = compare(job, run_inline, bundle, algo, rules, rates)
    assert [record.absent for record, _ in both] == [row.absent for _, row in both]


def test_a_dummy_round_is_taken_by_all_and_gives_the_first_rates(compose_small: Compose, run_inline: Run) -> None:
    words = ("algo=adaptive", "adaptive.first=dummy", "optimizer=momentum", OFTEN)
    job = compose_small(*words)
    first = rounds_of(run_inline(job))[0]
    known = rounds_of(run_inline(compose_small(*words, "adaptive.first=speeds")))[0]
    assert first.absent
    assert first.lr == known.lr
    assert first.start_units == 6 + 10  # t_comm of all, though some miss the first round


@pytest.mark.parametrize("algo", NAMES)
def test_who_misses_every_round_stays_as_it_was(algo: str, compose_small: Compose, run_inline: Run) -> None:
    job = compose_small(f"algo={algo}", "absence.above={b:0.3}", "speeds=uniform", "speeds.utilization={b:0.31}")
    records = run_inline(job)
    shared = job.experiment.shared
    before = {spec.name: digest(Party(spec, shared).model) for spec in job.experiment.parties}
    after = records[-1].digests  # type: ignore[union-attr]
    assert [name for name in before if before[name] == after[name]] == ["b"]
    for record in rounds_of(records):
        assert record.absent == (1,)
        assert record.present == (0, 2, 3)
        assert record.tau[1] == record.up_bytes[1] == record.down_bytes[1] == 0
        assert record.up_bytes[0] == record.up_bytes[2] > 0
        assert record.sent_bytes == sum(record.up_bytes) + sum(record.down_bytes)
        assert record.train_loss > 0


def test_all_may_be_absent_and_the_server_goes_on(compose_small: Compose, run_inline: Run) -> None:
    records = run_inline(compose_small("absence.above=0.1", "speeds.utilization=0.5"))
    assert all(r.tau[:-1] == (0, 0, 0) and r.tau[-1] > 0 and r.sent_bytes == 0 for r in rounds_of(records))
    assert all(r.train_loss > 0 for r in rounds_of(records))
    assert [r.duration for r in rounds_of(records)] == [6.0] * 12


@pytest.mark.parametrize("algo", NAMES)
def test_absence_that_does_not_happen_changes_no_number(algo: str, compose_small: Compose, run_inline: Run) -> None:
    """Not even running statistics, dropout or noise, though first embeddings are kept."""
    words = (
        f"algo={algo}", "model.dropout=0.2", "+parties.b.model._target_=helpers.ray_models.Normalized",
        "network.noise=0.01",
    )  # fmt: skip
    job = compose_small(*words, "absence.probability=1e-15")
    assert job.experiment.shared.may_miss == {0, 1, 2}
    with_, without = run_inline(job), run_inline(compose_small(*words))
    assert [dataclasses.replace(r, absent=None) for r in rounds_of(with_)] == rounds_of(without)
    assert all(r.absent == () for r in rounds_of(with_))
    for name, state in with_[-1].states.items():  # type: ignore[union-attr]
        for key, value in state.items():
            np.testing.assert_array_equal(value, without[-1].states[name][key])  # type: ignore[union-attr]


@pytest.mark.parametrize("algo", NAMES)
def test_hosts_give_the_numbers_of_one_process(algo: str, compose_small: Compose, write_bundle: WriteBundle) -> None:
    path = write_bundle(dict.fromkeys("abcde", (3,)))
    words = (f"algo={algo}", "model.dropout=0.2", "server=mlp", "absence.probability={a:0.4,c:0.5,e:0.2}")
    alone = assert_same_on_hosts(compose_small(*words, "network.bits=6", path=path))
    assert {k for record in rounds_of(alone) for k in record.absent or ()} == {0, 2, 4}


def test_who_reads_ahead_is_asked_for_what_comes_when_it_is_back(
    compose_job: Compose, run_inline: Run, tmp_path: Path
) -> None:
    image_folder(tmp_path, height=10, width=12)
    words = (
        "dataset=imagenet100",
        f"dataset.path={tmp_path}",
        "dataset.size=8",
        "embedding=3",
        "timeout=2",
        "rounds=8",
    )
    digests = []
    for workers in (0, 2):
        job = compose_job(
            *words, "absence.probability=0.5", f"dataset.workers={workers}", "dataset.batch_size=4",
            "target_metric=test_top1",
        )  # fmt: skip
        digests.append(run_inline(job)[-1].digests)  # type: ignore[union-attr]
    assert digests[0] == digests[1]


# An algorithm of one's own -------------------------------------------------------------------------------------------


def test_an_algorithm_that_does_not_look_gives_the_absent_nothing_to_do(
    compose_small: Compose, run_inline: Run
) -> None:
    job = compose_small(OFTEN, f"algo._target_={__name__}.Careless")
    for record in rounds_of(run_inline(job)):
        away = set(record.absent or ())
        assert record.tau == tuple(0 if k in away else 2 for k in range(4))


class Careless(RoundAlgorithm):
    """Does not know of absence at all."""

    def plan(self, now: Moment) -> Plan:
        return Plan((2,) * 4, self.system.lr, 5.0, 1.0, (1.0,) * 4)


# The run folder ------------------------------------------------------------------------------------------------------


def test_counts_column_timeline_and_table(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], compose_small: Compose
) -> None:
    words = ("dataset=bundle", f"dataset.path={bundle}", *SMALL, OFTEN)
    folder = tmp_path / "run"
    assert run_command(["cluster=inline", "progress=false", f"hydra.run.dir={folder}", *words]) == 0
    told = capsys.readouterr().out
    away = absences_of(compose_small(OFTEN).experiment)
    with (folder / "rounds.csv").open(encoding="utf-8") as file:
        found = [json.loads(row["absent"]) for row in csv.DictReader(file)]
    assert found == [[name for k, name in enumerate("abc") if k in absent] for absent in away]
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    missed = {name: sum(k in absent for absent in away) for k, name in enumerate("abc")}
    assert summary["absent_rounds"] == missed
    assert "rounds missed" in told
    assert ", ".join(f"{name} {n}" for name, n in missed.items()) in told
    assert summary["failures"] == []
    events = json.loads((folder / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
    for r, k in itertools.product(range(12), range(4)):
        kinds = {e["name"] for e in events if e["tid"] == k and e.get("args", {}).get("round") == r + 1}
        assert (kinds == {"absent"}) if k in away[r] else "absent" not in kinds


def test_a_run_without_absences_says_so(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ("dataset=bundle", f"dataset.path={bundle}", *SMALL, "rounds=2", "absence.above=1")
    assert run_command(["cluster=inline", "progress=false", f"hydra.run.dir={folder}", *words]) == 0
    assert all(line.endswith(",,,") for line in (folder / "rounds.csv").read_text().splitlines()[1:])
    assert json.loads((folder / "summary.json").read_text())["absent_rounds"] is None
