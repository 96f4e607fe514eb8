"""The throttle: exact on a clock of its own, and close on the machine's."""

from __future__ import annotations

import threading
import time

import pytest

from flexray.core.messages import Pace
from flexray.core.speeds import local_iterations
from flexray.engine.parties.pace import Clock, Throttle, Timer


class OwnClock(Clock):
    """Time passes only when told to; every sleep lasts ``late`` longer than asked for."""

    def __init__(self, late: float = 0.0) -> None:
        self.time, self.late = 100.0, late
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.slept.append(seconds)
            self.time += seconds + self.late


def run(pace: Pace, unit_s: float, tau: int = 1, late: float = 0.0) -> tuple[int, float, OwnClock]:
    """Return iterations, seconds and the clock of one round."""
    clock = OwnClock(late)
    throttle = Throttle(pace, clock)
    for _ in throttle.iterations(tau):
        clock.time += unit_s
    return throttle.taken, clock.time - 100.0, clock


@pytest.mark.parametrize("c", [0.0, 0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("unit_s", [0.01, 0.03, 0.4, 1.0])
def test_as_many_iterations_fit_as_on_the_virtual_clock(c: float, unit_s: float) -> None:
    taken, lasted, _ = run(Pace(1 - c, 1.0, fill=True), unit_s)
    assert taken == local_iterations(1.0, unit_s, c)
    assert lasted == pytest.approx(max(1.0, taken * unit_s / (1 - c)))


def test_an_iteration_that_takes_longer_than_the_round_rests_in_full() -> None:
    taken, lasted, clock = run(Pace(0.25, 1.0, fill=True), unit_s=3.0)
    assert (taken, lasted, clock.slept) == (1, 12.0, [9.0])


def test_rests_come_between_iterations_not_at_the_end() -> None:
    _, _, clock = run(Pace(0.5, 1.0, fill=True), unit_s=0.125)
    assert clock.slept == [0.125] * 4


def test_a_given_number_of_iterations_is_taken_however_long_it_lasts() -> None:
    assert run(Pace(0.5), unit_s=0.25, tau=7)[:2] == (7, 3.5)
    assert run(Pace(0.5, 5.0), unit_s=0.25, tau=7)[:2] == (7, 5.0)
    assert run(Pace(0.5, 1.0), unit_s=0.25, tau=0)[0] == 0


@pytest.mark.parametrize("c", [0.2, 0.5, 0.8])
def test_late_wake_ups_do_not_shift_the_share(c: float) -> None:
    taken, _, _ = run(Pace(1 - c, 1.0, fill=True), unit_s=0.0001, late=0.002)
    assert taken / 10_000 == pytest.approx(1 - c, abs=0.003)


def test_the_first_iteration_warms_up() -> None:
    clock = OwnClock()
    throttle = Throttle(Pace(1.0), clock)
    for place in throttle.iterations(4):
        clock.time += 5.0 if place == 0 else 0.5
    assert throttle.unit_s == 0.5


def test_a_timer_pauses() -> None:
    clock = OwnClock()
    timer = Timer(clock)
    clock.time += 2
    timer.pause()
    clock.time += 5
    assert timer.now() == 2
    timer.go_on()
    timer.sleep(3)
    assert timer.now() == 5


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.parametrize(("unit_s", "rounds"), [(0.002, 1), (0.15, 4)], ids=["many", "longer than the round"])
def test_the_share_on_the_machines_clock(unit_s: float, rounds: int) -> None:
    """Computing stands for itself here: it sleeps, so that a busy machine does not count as slow."""
    c, length = 0.5, 0.6 / rounds if rounds == 1 else 0.1
    taken, begun, busy = 0, time.perf_counter(), 0.0
    for _ in range(rounds):
        throttle = Throttle(Pace(1 - c, length, fill=True))
        for _ in throttle.iterations(1):
            started = time.perf_counter()
            threading.Event().wait(unit_s)
            busy += time.perf_counter() - started
        taken += throttle.taken
    assert busy / (time.perf_counter() - begun) == pytest.approx(1 - c, abs=0.1)  # 0.05 when idle
    assert taken >= rounds


@pytest.mark.parametrize("share", [0.8, 0.5, 0.2])
@pytest.mark.parametrize(
    ("seconds", "unit_s", "tau"),
    [(1.0, 0.01, 1), (0.02, 0.09, 1), (0.1, 0.1, 1), (0.0, 0.09, 1), (0.0, 0.01, 7)],
    ids=["fits", "longer than the round", "as long as the round", "no timeout", "several without a timeout"],
)
def test_the_share_of_rounds_counts_what_they_take_beside_iterations(
    share: float, seconds: float, unit_s: float, tau: int
) -> None:
    """A round lasts iterations, rests and 40 ms more; its rate is the share of that of a round without rests."""
    rates = []
    for left in (1.0, share):
        taken, lasted, _ = run(Pace(left, seconds, fill=seconds > 0, overhead_s=0.04), unit_s, tau)
        rates.append(taken / (lasted + 0.04))
    assert rates[1] / rates[0] == pytest.approx(share, abs=1e-9)


def test_what_is_owed_for_the_overhead_does_not_jump_where_iterations_just_fit() -> None:
    lasted = [run(Pace(0.5, 1.0, overhead_s=0.1), unit_s=unit_s)[1] for unit_s in (0.499, 0.501)]
    assert lasted == [1.0, pytest.approx(1.002, abs=0.001)]
