"""BS-VFL against a pipeline that is run event by event, and what it promises."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from flexray.algorithms.base import Moment, System
from flexray.algorithms.bsvfl import BSVFL
from flexray.algorithms.checked import plan_round
from flexray.core.errors import ConfigError
from flexray.engine.driver.base import CODEC
from flexray.optimizers import LocalSGD
from helpers.jobs import Compose, Run
from helpers.pipeline import Pipeline
from helpers.published_cases import case_of
from helpers.reference_cases import PACE
from helpers.several_hosts import assert_same_on_hosts
from helpers.small import ended, rounds_of

ROUNDS = 50


@pytest.mark.parametrize(
    ("bound", "local", "t_comm"),
    [(2, 3, (3, 1, 2)), (3, 1, (40, 8, 20)), (7, 2, (100, 100, 100)), (2, 2, (0, 0, 0))],
)
def test_fifty_rounds_are_those_of_a_pipeline(
    bound: int, local: int, t_comm: tuple[int, ...], compose_job: Compose, run_inline: Run, bundle: Path
) -> None:
    pace = replace(PACE, t_comm=tuple(map(Fraction, t_comm)))
    words = ("algo=bsvfl", f"algo.local_iterations={local}", f"algo.max_staleness={bound}")
    case = case_of(compose_job, bundle, words, pace=pace)
    units = [float(local * base / (1 - used)) for base, used in zip(pace.base, pace.utilization, strict=True)]
    pipeline = Pipeline(case.model, case.batches, local, bound, units, [t / 2 for t in t_comm])
    records = run_inline(case.job)
    case.assert_same(records, pipeline.losses)
    rounds = rounds_of(records)
    assert [record.sim_time for record in rounds] == pytest.approx(pipeline.ends, rel=1e-12)
    assert [record.staleness for record in rounds] == pipeline.ages
    assert max(map(max, pipeline.ages)) == bound


def test_without_staleness_it_is_fedbcd(compose_small: Compose, run_inline: Run) -> None:
    more = ("model.dropout=0.1", "network.t_comm={a:3,b:17,c:1}", "absence.sample=2", "network.bits=6")
    one = run_inline(compose_small("algo=bsvfl", "algo.max_staleness=0", *more))
    other = run_inline(compose_small("algo=fedbcd", *more))
    assert one[:-1] == other[:-1]
    assert ended(one).digests == ended(other).digests


def system_of(base: tuple[float, ...], t_comm: float) -> System:
    count = len(base)
    names = (*(f"p{k}" for k in range(1, count)), "server")
    return System(names, base, 20.0, (t_comm,) * (count - 1), (0.1,) * count, (0.1,) * count, (LocalSGD(),) * count,
                  (False,) * count)  # fmt: skip


@pytest.mark.parametrize("bound", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("party", "server", "t_comm"), [(4.0, 1.0, 10.0), (4.0, 4.0, 50.0), (1.0, 2.0, 10.0), (1.0, 1.5, 64.0)]
)
def test_rounds_of_equal_parties_last_as_long_as_the_formula_says(
    bound: int, party: float, server: float, t_comm: float
) -> None:
    algorithm = BSVFL(system_of((party, party, party, server), t_comm), 5, bound)
    count, ends, now = 40 * (bound + 1), [], 0.0
    for index in range(count):
        now += plan_round(algorithm, Moment(index, now, (0.0,) * 4)).duration_units
        ends.append(now)
    half = count // 2  # whole cycles
    each = max(5 * server, (5 * party + t_comm) / (bound + 1), (5 * party + t_comm / (bound + 1)) * (server <= party))
    assert (ends[-1] - ends[half - 1]) / half == pytest.approx(each, rel=1e-12)


def test_a_round_is_planned_alike_whenever_it_is() -> None:
    """Also again, as where it did not fit into a run's time, and after a checkpoint."""
    algorithm = BSVFL(system_of((4.0, 2.0, 1.0), 30.0), 2, 3)
    expected = []
    for index in range(20):
        now = Moment(index, 0.0, (0.0, 0.1 * (index % 3), 0.2), absent=frozenset({index % 2} if index % 4 > 1 else ()))
        expected.append(plan_round(algorithm, now))
        assert plan_round(algorithm, now) == expected[-1]
        resumed = BSVFL(algorithm.system, 2, 3)
        resumed.load(CODEC.decode(CODEC.encode(algorithm.save(), {}), {}))
        assert plan_round(resumed, now) == expected[-1]
        algorithm = resumed
    assert all(plan.staleness and max(plan.staleness) <= 3 for plan in expected)
    for saved in (None, 3, ((1, (0.0,), ((),), 0.0),), ((1, (0.0, 0.0), ((), ("x",)), 0.0),)):
        with pytest.raises(ValueError, match=r"^algorithm: expected when everybody sends"):
            algorithm.load(saved)


def test_nobody_waits_for_the_absent() -> None:
    algorithm = BSVFL(system_of((4.0, 1.0, 1.0), 10.0), 5, 1)
    away, nobody = frozenset({0}), frozenset({0, 1})
    plans = [
        plan_round(algorithm, Moment(index, 0.0, (0.0,) * 3, absent=absent))
        for index, absent in enumerate((frozenset[int](), away, away, nobody, frozenset[int]()))
    ]
    assert [plan.tau for plan in plans] == [(0, 0, 5), (0, 10, 5), (0, 0, 5), (0, 0, 5), (10, 5, 5)]
    assert [plan.staleness for plan in plans] == [(0, 0), (1, 1), (1, 0), (1, 1), (1, 1)]
    assert [plan.duration_units for plan in plans] == [10, 10, 10, 5, 40]


@pytest.mark.parametrize(
    "more", ["missing.fraction={a:0.4}", "labels_at=b", "labels_at=+boss", "frozen=[b]", "dataset.replacement=true"]
)
def test_hosts_give_the_numbers_of_one_process(more: str, compose_small: Compose) -> None:
    words = ("algo=bsvfl", "model.dropout=0.2", "network.top_k=0.4", "network.t_comm={a:30,default:3}")
    sample = () if "labels" in more else ("absence.sample=2",)
    assert_same_on_hosts(compose_small(*words, more, *sample), (1, 2))


def test_it_takes_the_same_time_if_nothing_is_learned(compose_small: Compose, run_inline: Run) -> None:
    words = ("algo=bsvfl", "network.bandwidth=8", "network.t_comm=3", "speeds=trace", "absence.sample=2")
    jobs = [compose_small(*words, f"learn={word}") for word in ("true", "false")]
    for one, other in zip(*map(rounds_of, map(run_inline, jobs)), strict=True):
        assert replace(one, train_loss=0.0) == replace(other, train_loss=0.0)


def test_measured_seconds_are_refused(compose_small: Compose, tmp_path: Path) -> None:
    path = tmp_path / "seconds.yaml"
    path.write_text("participants: {default: {iteration_s: 1}}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^speeds: the algo has parties ahead of their gradients, and measured"):
        compose_small("algo=bsvfl", "speeds=measured", f"speeds.path={path}")


def test_more_iterations_than_there_are_gradients_are_refused(
    compose_small: Compose, run_inline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BSVFL, "plan", lambda self, now: self.wait_for_all(now, 2 * self.local_iterations))
    with pytest.raises(ConfigError, match=r"^algo: a is to step along 2 gradients and has 1$"):
        run_inline(compose_small("algo=bsvfl"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("labels_at=all", "labels_at: BSVFL leaves the labels with one participant; expected server, got all"),
        ("algo.max_staleness=-1", "algo.max_staleness: expected a whole number of at least 0, got -1"),
        ("algo.max_staleness=1.5", "algo.max_staleness: expected a whole number of at least 0, got 1.5"),
        ("algo.local_iterations=0", "algo.local_iterations: expected a whole number of at least 1, got 0"),
        (
            "clock=wall",
            "clock: the algo has parties ahead of their gradients, as in simulation alone; expected virtual",
        ),
        ("network.latency=1", "network: the algo has parties ahead of their gradients, and messages of rounds that"),
        ("timeout=auto", "timeout: "),
    ],
)
def test_what_does_not_fit_is_refused(words: str, message: str, compose_small: Compose) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        compose_small("algo=bsvfl", *words.split())
