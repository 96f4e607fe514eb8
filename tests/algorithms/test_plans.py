"""Plans: tau, durations and learning rates of every algorithm, without running anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flexray.algorithms.adaptive import AdaptiveFlexVFL, static_rates
from flexray.algorithms.base import Moment, Plan, System
from flexray.algorithms.checked import plan_round
from flexray.algorithms.flex import FlexVFL
from flexray.algorithms.pbcd import PBCD
from flexray.algorithms.sync import SyncMaxVFL, SyncMinVFL
from flexray.algorithms.vafl import VAFL
from flexray.config.speeds import build_speeds
from flexray.core.clock import Stopwatch
from flexray.core.errors import ConfigError
from flexray.core.messages import Report
from flexray.core.speeds import GOOGLE_MEANS
from flexray.engine.driver.experiment import LearningRateDecay
from flexray.optimizers import LocalSGD, TorchOptimizer

ROUND_ALGORITHMS = {
    "flex": FlexVFL,
    "adaptive": AdaptiveFlexVFL,
    "sync_min": SyncMinVFL,
    "sync_max": SyncMaxVFL,
    "pbcd": PBCD,
}
PARTIES = {"mosei": 3, "imagenet100": 4, "modelnet40": 12}
TAU = {
    "mosei": (5, 10, 15, 20),
    "imagenet100": (2, 4, 6, 8, 10),
    "modelnet40": (5, 5, 5, 10, 10, 10, 15, 15, 15, 20, 20, 20, 20),
}
DURATIONS = {
    "mosei": {"flex": (21, 30, 70), "sync_max": (81, 90, 130), "pbcd": (5, 14, 54)},
    "imagenet100": {"flex": (11, 20, 60), "sync_max": (51, 60, 100), "pbcd": (6, 15, 55)},
    "modelnet40": {"flex": (21, 30, 70), "sync_max": (81, 90, 130), "pbcd": (5, 14, 54)},
}
T_COMM = (1.0, 10.0, 50.0)


def make_system(base: tuple[float, ...], timeout: float = 20.0, t_comm: Any = 10.0, **changes: Any) -> System:
    count = len(base)
    links = t_comm if isinstance(t_comm, tuple) else (t_comm,) * (count - 1)
    system = System(
        names=(*(f"p{k + 1}" for k in range(count - 1)), "server"),
        base_units=base,
        timeout_units=timeout,
        party_comm_units=links,
        lr=(0.1,) * count,
        base_rates=(0.4,) * count,
        optimizers=(LocalSGD(),) * count,
        frozen=(False,) * count,
    )
    return replace(system, **changes)


def of_dataset(dataset: str, t_comm: float, timeout: float | None = None) -> tuple[System, Moment]:
    """Return the paper's fixed speeds as ``speeds=paper`` builds them."""
    node = {"kind": "paper", "iterations": None, "unit_time": None, "utilization": None, "max_utilization": 0.99}
    names = [*(str(k) for k in range(PARTIES[dataset])), "server"]
    timeout_units, speeds = build_speeds({"speeds": node, "timeout": timeout}, dataset, names, Path())
    system = make_system(speeds.base_units, timeout_units, t_comm)
    return system, Moment(0, 0.0, speeds.utilization(0, 0.0))


def idle(system: System, round_: int = 0) -> Moment:
    return Moment(round_, 0.0, (0.0,) * len(system.names))


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("dataset", DURATIONS)
def test_iterations_and_durations_of_the_paper(dataset, place):
    t_comm, tau = T_COMM[place], TAU[dataset]
    system, now = of_dataset(dataset, t_comm)
    one, count = 1, len(tau)
    expected = {
        "flex": (tau, "flex"),
        "adaptive": (tau, "flex"),
        "sync_min": ((min(tau),) * count, "flex"),
        "sync_max": ((max(tau),) * count, "sync_max"),
        "pbcd": ((one,) * count, "pbcd"),
    }
    for name, (iterations, row) in expected.items():
        plan = ROUND_ALGORITHMS[name](system).plan(now)
        assert plan.tau == iterations
        assert plan.duration_units == DURATIONS[dataset][row][place]
        assert plan.comm_units == t_comm


@pytest.mark.parametrize("t_comm", T_COMM)
@pytest.mark.parametrize("dataset", DURATIONS)
def test_turns_of_vafl(dataset, t_comm):
    """Party k's n-th update counts at n (unit time + t_comm); the server and one party step."""
    system, now = of_dataset(dataset, t_comm)
    count = len(TAU[dataset])
    for party, tau in enumerate(TAU[dataset][:-1]):
        plan = VAFL(system).plan(party, now)
        assert plan.duration_units == system.timeout_units / tau + t_comm
        assert plan.tau == tuple(int(k in (party, count - 1)) for k in range(count))
        assert plan.lr == system.lr
        watch = Stopwatch()
        ends = [watch.advance(plan.duration_units) for _ in range(1000)]
        assert ends == [n * (system.timeout_units / tau + t_comm) for n in range(1, 1001)]


@pytest.mark.parametrize(("timeout", "tau"), [(20, 5), (25, 6), (30, 7), (35, 8), (40, 10)])
def test_longer_timeouts_give_more_iterations_and_longer_rounds(timeout, tau):
    system, now = of_dataset("modelnet40", 10.0, timeout)
    plan = FlexVFL(system).plan(now)
    assert (plan.tau[0], plan.tau[-1], plan.duration_units) == (tau, timeout, timeout + 10.0)
    assert SyncMaxVFL(system).plan(now).duration_units == timeout * 4 + 10.0
    assert PBCD(system).plan(now).duration_units == 14.0


def test_google_averages():
    system = make_system((1.0,) * 13)
    now = Moment(0, 0.0, GOOGLE_MEANS)
    tau = (12, 16, 17, 13, 16, 18, 17, 14, 15, 17, 14, 17, 13)
    slowest = 1 / (1 - 0.3638092)
    assert FlexVFL(system).plan(now).tau == tau
    assert SyncMinVFL(system).plan(now).tau == (12,) * 13
    sync_max = SyncMaxVFL(system).plan(now)
    assert sync_max.tau == (18,) * 13
    assert sync_max.duration_units == pytest.approx(18 * slowest + 10, rel=1e-15)
    assert PBCD(system).plan(now).duration_units == pytest.approx(slowest + 10, rel=1e-15)
    assert VAFL(system).plan(0, now).duration_units == pytest.approx(slowest + 10, rel=1e-15)
    assert FlexVFL(system).plan(now).unit_times[0] == pytest.approx(slowest, rel=1e-15)


def test_the_server_counts_in_min_max_and_the_slowest():
    slow_server, fast_server = make_system((1.0, 2.0, 5.0)), make_system((2.0, 2.0, 1.0))
    assert SyncMinVFL(slow_server).plan(idle(slow_server)).tau == (4, 4, 4)
    assert SyncMaxVFL(fast_server).plan(idle(fast_server)).tau == (20, 20, 20)
    assert SyncMaxVFL(slow_server).plan(idle(slow_server)).duration_units == 20 * 5 + 10
    assert PBCD(slow_server).plan(idle(slow_server)).duration_units == 15
    assert VAFL(slow_server).plan(0, idle(slow_server)).duration_units == 11  # the party's own unit time


def test_a_synchronous_round_waits_for_the_slowest_link():
    system = make_system((1.0, 2.0, 1.0), t_comm=(3.0, 8.0))
    for name, computing in {"flex": 20, "adaptive": 20, "sync_min": 20, "sync_max": 40, "pbcd": 2}.items():
        plan = ROUND_ALGORITHMS[name](system).plan(idle(system))
        assert (plan.duration_units, plan.comm_units) == (computing + 8.0, 8.0)
    assert [VAFL(system).plan(k, idle(system)).duration_units for k in (0, 1)] == [4.0, 10.0]


def test_a_round_is_never_shorter_than_its_computing():
    """An iteration of p1 takes 100 units, five times the timeout."""
    system = make_system((1.0, 1.0, 1.0))
    now = Moment(4, 7.0, (0.99, 0.0, 0.5))
    for algorithm, tau in ((FlexVFL, (1, 20, 10)), (AdaptiveFlexVFL, (1, 20, 10)), (SyncMinVFL, (1, 1, 1))):
        plan = plan_round(algorithm(system), now)
        assert (plan.tau, plan.duration_units) == (tau, pytest.approx(110.0, rel=1e-13))
        assert plan_round(algorithm(replace(system, waits_for_overrun=False)), now).duration_units == 30.0
        without_p1 = replace(system, frozen=(True, False, False))
        assert plan_round(algorithm(without_p1), now).duration_units == 30.0
        assert plan_round(algorithm(system), replace(now, absent=frozenset({0}))).duration_units == 30.0
    assert PBCD(system).plan(now).duration_units == pytest.approx(110.0, rel=1e-13)
    assert SyncMaxVFL(system).plan(now).duration_units == pytest.approx(20 * 100 + 10, rel=1e-13)
    assert VAFL(system).plan(0, now).duration_units == pytest.approx(110.0, rel=1e-13)
    assert PBCD(replace(system, frozen=(True, False, False))).plan(now).duration_units == 12.0


def test_rounding_is_no_overrun():
    """20 (1 - 0.15) iterations of 1 / 0.85 units come to a little more than 20 by rounding alone."""
    system = make_system((1.0, 1.0, 1.0), t_comm=0.0)
    for hundredths in range(95):
        assert plan_round(FlexVFL(system), Moment(0, 0.0, (hundredths / 100, 0.0, 0.0))).duration_units == 20.0


class Own(FlexVFL):
    """Iterations that do not fit, and some for whoever is frozen."""

    def plan(self, now: Moment) -> Plan:
        return self.make_plan(now, (3, 5, 5), 10.0)


def test_a_plan_of_one_s_own_is_never_shorter_than_its_computing():
    system = make_system((4.0, 1.0, 1.0))
    assert plan_round(Own(system), idle(system)).duration_units == 12.0 + 10.0
    assert plan_round(Own(make_system((3.0, 1.0, 1.0))), idle(system)).duration_units == 10.0 + 10.0
    assert plan_round(Own(replace(system, frozen=(True, False, False))), idle(system)).tau == (0, 5, 5)
    assert FlexVFL(system).iterations_by_timeout(idle(system), 8.0) == (2, 8, 8)


def reports(tau: tuple[int, ...], w_bar: tuple[float, ...]) -> tuple[Report, ...]:
    return tuple(Report(t, w) for t, w in zip(tau, w_bar, strict=True))


def adaptive_system(**changes: Any) -> System:
    """Return base rates 0.4, 0.6, 0.2; SGD, momentum 0.5, momentum 0.9."""
    optimizers = (LocalSGD(), LocalSGD(momentum=0.5), LocalSGD(momentum=0.9))
    return make_system((4.0, 2.0, 1.0), base_rates=(0.4, 0.6, 0.2), optimizers=optimizers, **changes)


def second_plan(algorithm: AdaptiveFlexVFL, tau: tuple[int, ...], w_bar: tuple[float, ...]) -> Plan:
    """Plan the round after one with these reports; its own speeds are others, which must not matter."""
    algorithm.plan(Moment(0, 0.0, (0.0, 0.0, 0.0)))
    return algorithm.plan(Moment(1, 30.0, (0.9, 0.5, 0.0), reports(tau, w_bar)))


def test_adaptive_rates_divide_by_reported_iterations_and_weights():
    algorithm = AdaptiveFlexVFL(adaptive_system())
    assert algorithm.needs_reports
    first = algorithm.plan(Moment(0, 0.0, (0.0, 0.0, 0.0)))
    w_bar = ((1 - 0.5**10) / 0.5, (1 - 0.9**20) / (1 - 0.9))
    assert first.lr == pytest.approx((0.4 / 5, 0.6 / (10 * w_bar[0]), 0.2 / (20 * w_bar[1])), rel=1e-14)
    plan = second_plan(algorithm, (4, 8, 16), (1.0, 1.5, 7.0))
    assert plan.tau == (1, 5, 20)
    assert plan.lr == pytest.approx((0.4 / 4, 0.6 / (8 * 1.5), 0.2 / (16 * 7.0)), rel=1e-14)


def test_adaptive_rates_of_the_published_code():
    """eta starts at A / (floor(t_o (1 - c) / base) + 1), then eta <- eta tau_before / tau_now, whatever the weights."""
    algorithm = AdaptiveFlexVFL(adaptive_system(), weighted=False)
    start = (0.4 / 6, 0.6 / 11, 0.2 / 21)
    assert algorithm.plan(Moment(0, 0.0, (0.0, 0.0, 0.0))).lr == pytest.approx(start, rel=1e-14)
    assert second_plan(algorithm, (5, 10, 20), (1.0, 1.9, 9.0)).lr == pytest.approx(start, rel=1e-14)
    second = second_plan(algorithm, (4, 8, 16), (1.0, 1.5, 7.0)).lr
    assert second == pytest.approx([1.25 * eta for eta in start], rel=1e-14)


def test_the_published_first_rate_divides_by_the_iterations_at_the_smallest_utilization():
    system = replace(adaptive_system(timeout=10.0), base_rates=(1e-4,) * 3, least_utilization=0.04)
    plan = AdaptiveFlexVFL(system, weighted=False).plan(Moment(0, 0.0, (0.3, 0.5, 0.2)))
    assert plan.lr == pytest.approx((1e-4 / 3, 1e-4 / 5, 1e-5), rel=1e-14)


def test_the_first_rate_comes_from_the_dummy_round():
    system = adaptive_system()
    start, later = Moment(0, 0.0, (0.0, 0.5, 0.2)), Moment(0, 30.0, (0.5, 0.0, 0.0))
    for weighted in (True, False):
        known, dummy = AdaptiveFlexVFL(system, weighted), AdaptiveFlexVFL(system, weighted, first="dummy")
        assert known.preparation(start) is None
        assert dummy.preparation(start).duration_units == 30.0
        first, of_dummy = dummy.plan(later), known.plan(start)
        assert first.tau == (2, 10, 20)
        assert of_dummy.tau == (5, 5, 16)
        assert first.lr == of_dummy.lr
        after = Moment(1, 60.0, (0.5, 0.0, 0.0), reports((2, 10, 20), (1.0, 1.9, 8.0)))
        assert dummy.plan(after).lr == known.plan(after).lr


def test_adaptive_rates_of_the_frozen_and_of_optimizers_outside_the_theory():
    system = replace(adaptive_system(), frozen=(True, False, False), optimizers=(TorchOptimizer("Adam"),) * 3)
    plan = AdaptiveFlexVFL(system).plan(idle(system))
    assert plan.tau == (0, 10, 20)
    assert plan.lr == pytest.approx((0.4, 0.06, 0.01), rel=1e-14)


def test_an_unknown_way_to_the_first_rate():
    with pytest.raises(ConfigError, match=r"adaptive\.first.*'dumy'.*'dummy'"):
        AdaptiveFlexVFL(adaptive_system(), first="dumy")


def test_static_rates_are_those_at_zero_utilization():
    momentum = (LocalSGD(momentum=0.9),) * 13
    system = make_system((1.0,) * 13, timeout=10.0, optimizers=momentum, base_rates=(1e-4,) * 13)
    expected = 1e-4 / (10 * (1 - 0.9**10) / (1 - 0.9))
    assert static_rates(system) == pytest.approx((expected,) * 13, rel=1e-14)
    sgd = make_system((1.0,) * 4, base_rates=(1e-3, 1e-3, 5e-5, 1e-3))
    assert static_rates(sgd) == pytest.approx((5e-5, 5e-5, 2.5e-6, 5e-5), rel=1e-14)


@pytest.mark.parametrize("rates", ["fixed", "static"])
def test_rates_of_a_composed_job(compose_job, rates):
    job = compose_job("speeds=google_mean", f"rates={rates}", "lr=0.03", "adaptive.A=0.2", "optimizer=momentum")
    expected = 0.03 if rates == "fixed" else 0.2 / (20 * (1 - 0.9**20) / (1 - 0.9))
    assert job.experiment.algorithm.system.lr == pytest.approx((expected,) * 5, rel=1e-14)


def test_decay_at_milestones_of_iterations_or_epochs():
    decay = LearningRateDecay((75_000, 150_000), 0.1)
    scales = [decay.scale(n, 0.0) for n in (0, 74_999, 75_000, 149_999, 150_000, 10**9)]
    assert scales == [1.0, 1.0, 0.1, 0.1, 0.1**2, 0.1**2]
    by_epochs = LearningRateDecay((50, 75), 0.1, "epochs")
    assert [by_epochs.scale(10**9, n) for n in (0, 49.99, 50, 75)] == [1.0, 1.0, 0.1, 0.1**2]
    assert LearningRateDecay().scale(10**9, 10**9) == 1.0


@pytest.mark.parametrize(
    ("words", "rounds_at"),
    [
        (("lr_decay.milestones=[4,9]",), (1, 3)),  # 4 units of computing a round, the fastest participant's iterations
        (("algo=sync_min", "lr_decay.milestones=[4,9]"), (1, 3)),
        (("algo=pbcd", "lr_decay.milestones=[4,9]"), (1, 3)),
        (("algo=sync_max", "lr_decay.milestones=[4,9]"), (1, 1)),  # 16 units a round
        (("lr_decay.by=epochs", "lr_decay.milestones=[1]"), (3, 5)),
    ],
)
def test_rates_decay_in_one_round_for_everybody(words, rounds_at, compose_job, run_inline, bundle):
    speeds = ("speeds.iterations=[5,10,15,20]", "timeout=4", "model.hidden=[2]", "rounds=5", "lr=[1,2,3,4]")
    given = (
        "dataset=bundle",
        f"dataset.path={bundle}",
        "dataset.batch_size=8",
        *speeds,
        "lr_decay.factor=0.5",
        "clip_norm=1e-3",
    )
    rounds = [record for record in run_inline(compose_job(*given, *words)) if hasattr(record, "tau")]
    scales = [0.5 ** sum(r >= at for at in rounds_at) for r in range(5)]
    assert [record.lr for record in rounds] == [tuple(scale * n for n in (1, 2, 3, 4)) for scale in scales]
