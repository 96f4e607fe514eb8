"""Timeouts that choose themselves: what is chosen, of what it depends, and that it is a run's like any other."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from flexray.algorithms.adaptive import AdaptiveFlexVFL
from flexray.algorithms.base import Moment, Plan, RoundAlgorithm, System
from flexray.algorithms.checked import plan_round
from flexray.algorithms.flex import FlexVFL
from flexray.algorithms.sync import SyncMaxVFL, SyncMinVFL
from flexray.algorithms.timeouts import choose
from flexray.config.schema import shipped_classes
from flexray.core.measured import Measured
from flexray.core.runfolder import read_json, read_table
from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.inline import borrowed_torch
from flexray.engine.hosts.plan import place
from flexray.optimizers import LocalSGD
from flexray.report.folders import read_run
from flexray.report.tables import runs_csv
from flexray.run.hints import WITHOUT_TIMEOUT
from flexray.run.watch.folder import TableObserver
from flexray.run.watch.summary import summary_rows
from flexray.run.watch.totals import TimeoutObserver
from helpers.jobs import Compose, Run
from helpers.records import ROUND, STARTED
from helpers.several_hosts import SeveralHosts
from helpers.small import ended, rounds_of

BASE = (4.0, 2.0, 1.0, 1.0)
"""Units per local iteration of three parties and the server."""
IDLE = (0.0,) * 4


def system(t_comm: float = 10.0, **changes: Any) -> System:
    plain = System(
        names=("a", "b", "c", "server"),
        base_units=BASE,
        timeout_units=20.0,
        party_comm_units=(t_comm,) * 3,
        lr=(0.1,) * 4,
        base_rates=(1.5,) * 4,
        optimizers=(LocalSGD(),) * 4,
        frozen=(False,) * 4,
        chooses_timeout=True,
    )
    return replace(plain, **changes)


def chosen(algorithm: RoundAlgorithm, **moment: Any) -> Plan:
    return plan_round(algorithm, replace(Moment(0, 0.0, IDLE), **moment))


def test_longer_rounds_pay_until_they_move_too_far() -> None:
    assert choose({2.0}, lambda timeout: (timeout + 10, timeout / 30)) == 24.0
    assert choose({2.0}, lambda timeout: (timeout + 1000, timeout / 30)) == 58.0  # nearly as far as is fastest
    assert choose({2.0}, lambda timeout: (timeout, timeout / 30)) == 2.0  # messages are free: no timeout is better
    assert choose({2.0}, lambda timeout: (timeout + 10, 1.0)) == 2.0
    assert choose({1.0, 4.0}, lambda timeout: (max(timeout, 4.0) + 10, timeout / 8)) == 9.0
    assert choose({1.0, 4.0}, lambda timeout: (max(timeout, 4.0) + 10, 3 * timeout)) == 1.0  # too far with any
    assert choose({1.0, 4.0}, lambda timeout: (max(timeout, 4.0) + 10, 1.0)) == 4.0  # iterations that cost nothing
    assert choose(set(), lambda timeout: (1.0, 1.0)) is None
    assert choose({1.0}, lambda timeout: (timeout + 10, 1e-9 * timeout)) == 996.0  # a rate of next to nothing
    assert choose({2.0}, lambda timeout: (timeout + 10, 0.0)) == 2.0


def test_flex_weighs_how_far_rounds_move_against_messages() -> None:
    """With plain SGD at a rate of 0.1, 15 local iterations of everybody move as far as A, which is 1.5."""
    plan = chosen(FlexVFL(system()))
    assert (plan.timeout_units, plan.tau) == (20.0, (5, 10, 20, 20))
    assert plan.duration_units == 30.0
    assert chosen(FlexVFL(system(lr=(0.2,) * 4))).timeout_units == 12.0
    assert chosen(FlexVFL(system(base_rates=(3.0,) * 4))).timeout_units == 32.0
    assert chosen(FlexVFL(system(optimizers=(LocalSGD(0.9),) * 4))).timeout_units == 10.0
    assert [chosen(FlexVFL(system(t_comm=t_comm))).timeout_units for t_comm in (0.0, 100.0)] == [4.0, 32.0]


def test_adaptive_rounds_are_as_short_as_the_slowest_allows() -> None:
    for t_comm in (0.0, 50.0):
        assert chosen(AdaptiveFlexVFL(system(t_comm))).timeout_units == 4.0
    plan = chosen(AdaptiveFlexVFL(system()), utilization=(0.5, 0.0, 0.0, 0.0))
    assert (plan.timeout_units, plan.tau) == (8.0, (1, 4, 8, 8))


def test_the_synchronous_ones_choose_by_the_iterations_of_all() -> None:
    plan = chosen(SyncMinVFL(system()))
    assert (plan.timeout_units, plan.tau) == (40.0, (10,) * 4)
    plan = chosen(SyncMaxVFL(system()))
    assert (plan.timeout_units, plan.tau, plan.duration_units) == (10.0, (10,) * 4, 50.0)


def test_the_absent_and_the_frozen_do_not_count() -> None:
    algorithm = FlexVFL(system())
    assert chosen(algorithm, absent=frozenset({0})).timeout_units == 18.0
    assert chosen(algorithm).timeout_units == 20.0
    nobody = chosen(FlexVFL(system(frozen=(False, False, False, True))), absent=frozenset({0, 1, 2}))
    assert (nobody.tau, nobody.duration_units) == ((0,) * 4, nobody.timeout_units)
    assert nobody.timeout_units == chosen(FlexVFL(system(frozen=(False, False, False, True)))).timeout_units
    assert chosen(FlexVFL(system(frozen=(True,) * 4))).timeout_units == 20.0


def test_what_a_round_of_measured_seconds_takes_besides_counts_as_messages_do() -> None:
    def timeout(round_s: float) -> float | None:
        places = (0, 1, 2, 3)
        measured = Measured(BASE, BASE, (0.0,) * 4, (0.0,) * 4, BASE, round_s, places, places, (float("inf"),) * 4)
        return chosen(FlexVFL(system(t_comm=0.0, measured=measured))).timeout_units

    assert (timeout(0.0), timeout(10.0)) == (4.0, 20.0)


class Growing(RoundAlgorithm):
    """Of the user's own: rounds that need not be alike."""

    def plan(self, now: Moment) -> Plan:
        return self.make_plan(now, [1 + now.round] * 4, self.system.timeout_units * (1 + now.round))


def test_an_algorithm_of_ones_own_is_asked_in_every_round_and_flexrays_where_the_moment_differs() -> None:
    own = Growing(system(lr=(1.5,) * 4))
    assert [chosen(own, round=r).duration_units for r in (0, 1)] == [14.0, 18.0]
    ours = FlexVFL(system())
    for moment in ({"round": 5}, {"utilization": (0.5,) * 4}, {"party_comm_units": (0.0,) * 3}):
        assert chosen(ours, **moment) == chosen(FlexVFL(ours.system), **moment)


def test_which_algorithms_have_a_timeout() -> None:
    names = {name: target.rpartition(".") for target, name in shipped_classes("algo").items()}
    has = {name: getattr(import_module(module), kind).has_timeout for name, (module, _, kind) in names.items()}
    assert {name for name, timeout in has.items() if not timeout} == set(WITHOUT_TIMEOUT)


WORDS = ("timeout=auto", "lr=0.1", "speeds=trace", "network.latency=1", "network.up=200", "absence.probability=0.2")


@pytest.mark.parametrize("algo", ["flex", "adaptive", "sync_min", "sync_max"])
def test_hosts_give_the_numbers_of_one_process(algo: str, compose_small: Compose, run_inline: Run) -> None:
    job = compose_small(*WORDS, f"algo={algo}")
    alone = run_inline(job)
    with borrowed_torch():
        spread = list(make_driver(job.experiment, SeveralHosts(), place(3, 2)).run())
    assert spread[:-1] == alone[:-1]
    assert ended(spread).digests == ended(alone).digests
    assert len({record.timeout_units for record in rounds_of(alone)}) > 2


def test_a_run_of_the_timeout_that_was_chosen_is_the_same(compose_small: Compose, run_inline: Run) -> None:
    auto = rounds_of(run_inline(compose_small("timeout=auto", "lr=0.1")))
    (timeout,) = {record.timeout_units for record in auto}
    fixed = rounds_of(run_inline(compose_small(f"timeout={timeout}", "lr=0.1")))
    assert [replace(record, timeout_units=timeout) for record in fixed] == auto
    assert {record.timeout_units for record in fixed} == {None}


def test_a_chosen_timeout_is_seen(tmp_path: Path) -> None:
    table, totals = TableObserver(tmp_path, timeouts=True), TimeoutObserver()
    assert totals.summary() == {"timeout": None}
    for record in (STARTED, *(replace(ROUND, timeout_units=units) for units in (4.0, 12.0))):
        table.on(record)
        totals.on(record)
    table.close()
    lines = (tmp_path / "rounds.csv").read_text().splitlines()
    assert [line.split(",")[-1] for line in lines] == ["timeout", "4.0", "12.0"]
    assert totals.summary() == {"timeout": {"least": 4.0, "mean": 8.0, "most": 12.0}}
    summary: dict[str, Any] = {
        "time_unit": "units", "data_source": "package", "num_parties": 2, "rounds": 1, "sim_time": 1.0, "final": {},
        "final_round": 1, "target": None, "absent_rounds": None, "sent_bytes": 0, "wall_s": 1.0, "setup_s": 1.0,
        "peak_memory_mb": [],
    }  # fmt: skip
    title = "timeout chosen (units)"
    assert (title, "4 to 12, mean 8") in summary_rows({**summary, **totals.summary()}, tmp_path)
    alike = {"timeout": {"least": 4.0, "mean": 4.0, "most": 4.0}}
    assert (title, "4") in summary_rows({**summary, **alike}, tmp_path)
    assert not [row for row in summary_rows({**summary, "timeout": None}, tmp_path) if row[0] == title]


def test_a_run_folder_tells_what_was_chosen_and_is_repeated(run_once: Callable[..., Path], bundle: Path) -> None:
    words = (
        "cluster=inline", "progress=false", "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=7",
        "rounds=4", "lr=0.1", "adaptive.A=1", "speeds.utilization=[0.5,0,0,0]",
    )  # fmt: skip
    auto, fixed = run_once(*words, "timeout=auto"), run_once(*words, "timeout=8")
    again = run_once(*words, "timeout=auto", "speeds.utilization=null", "speeds=replay", f"speeds.path={auto}")
    summary, repeated = (read_json(folder / "summary.json") for folder in (auto, again))
    assert repeated["model_digest"] == summary["model_digest"]
    assert "timeout" not in repeated
    assert read_table(auto / "rounds.csv", unfinished=False)["timeout"] == [str(summary["timeout"]["mean"])] * 4
    assert read_json(fixed / "configuration.json")["timeout"] == 8.0
    assert '"timeout": 8.0' in (fixed / "configuration.json").read_text()
    reported = [read_run(folder, folder.name) for folder in (auto, fixed)]
    assert [run.mean_timeout for run in reported] == [summary["timeout"]["mean"], None]
    header, *rows = csv.reader(runs_csv(reported, []).splitlines())
    assert [row[header.index("mean_timeout")] for row in rows] == [f"{summary['timeout']['mean']:g}", ""]
    assert "mean_timeout" not in runs_csv(reported[1:], [])
