"""The virtual clock: exact event logs, ties, times that do not drift."""

from __future__ import annotations

import heapq
from fractions import Fraction

import pytest

from flexray.core.clock import EventQueue, Stopwatch


def drain(queue: EventQueue[str]) -> list[tuple[float, str]]:
    return [queue.pop() for _ in range(len(queue))]


def test_events_come_by_time_then_priority_then_order_of_pushing():
    queue: EventQueue[str] = EventQueue()
    for time, priority, event in [(2.0, 0, "late"), (1.0, 5, "e"), (1.0, 2, "b"), (1.0, 2, "c"), (0.5, 9, "first")]:
        queue.push(time, priority, event)
    assert len(queue) == 5
    assert drain(queue) == [(0.5, "first"), (1.0, "b"), (1.0, "c"), (1.0, "e"), (2.0, "late")]
    assert len(queue) == 0


def test_events_that_cannot_be_compared_with_each_other():
    queue: EventQueue[object] = EventQueue()
    events = [object(), object()]
    for event in events:
        queue.push(1.0, 0, event)
    assert [queue.pop()[1] for _ in events] == events


def test_times_that_differ_by_rounding_alone_are_equal():
    assert 3 * 0.1 > 0.3
    queue: EventQueue[str] = EventQueue()
    for time, priority, event in [(0.3, 1, "second"), (3 * 0.1, 0, "first"), (3 * (4 / 3), 3, "d"), (4.0, 2, "c")]:
        queue.push(time, priority, event)
    assert drain(queue) == [(3 * 0.1, "first"), (0.3, "second"), (4.0, "c"), (3 * (4 / 3), "d")]


def test_popped_events_may_be_pushed_again():
    queue: EventQueue[str] = EventQueue()
    queue.push(1.0, 0, "a")
    queue.push(1.5, 1, "b")
    log = []
    for _ in range(6):
        time, event = queue.pop()
        log.append((time, event))
        queue.push(time + {"a": 1.0, "b": 1.5}[event], {"a": 0, "b": 1}[event], event)
    assert log == [(1.0, "a"), (1.5, "b"), (2.0, "a"), (3.0, "a"), (3.0, "b"), (4.0, "a")]


@pytest.mark.parametrize(
    "turns",
    [
        (Fraction(14), Fraction(12), Fraction(34, 3), Fraction(11)),  # MOSEI and ModelNet40's unit times, t_comm 10
        (Fraction(5), Fraction(5, 2), Fraction(5, 3), Fraction(5, 4)),
        (Fraction(20, 17) + 1, Fraction(20, 13) + 1, Fraction(20, 11) + 1, Fraction(20, 19) + 1),
        (Fraction(1, 10), Fraction(3, 10), Fraction(7, 10), Fraction(21, 10)),
    ],
)
def test_turns_come_in_the_order_of_exact_arithmetic(turns):
    """10,000 turns, many of them ending together."""
    queue: EventQueue[int] = EventQueue()
    exact = [(turn, party) for party, turn in enumerate(turns)]
    heapq.heapify(exact)
    watches = [Stopwatch() for _ in turns]
    for party, turn in enumerate(turns):
        queue.push(watches[party].advance(float(turn)), party, party)
    ties, before = 0, Fraction(0)
    for _ in range(10_000):
        expected_time, expected = exact[0]
        time, party = queue.pop()
        assert party == expected
        assert time == pytest.approx(float(expected_time), rel=1e-14)
        ties, before = ties + (expected_time == before), expected_time
        heapq.heapreplace(exact, (expected_time + turns[party], party))
        queue.push(watches[party].advance(float(turns[party])), party, party)
    assert ties > 30


def test_ties_late_in_a_long_run():
    """Three turns of 56/3 units and one of 56 end together, whether rounding puts the three sooner or later."""
    parted = 0
    for n in range(140_000, 140_300):
        three, one = 3 * n * (56 / 3), n * 56.0
        parted += three != one
        for first, second in ((three, one), (one, three)):
            queue: EventQueue[str] = EventQueue()
            queue.push(second, 1, "second")
            queue.push(first, 0, "first")
            assert [event for _, event in drain(queue)] == ["first", "second"]
    assert parted > 50


def test_times_that_differ_are_not_taken_for_equal():
    queue: EventQueue[str] = EventQueue()
    for time, priority, event in [(1e6 + 1e-3, 0, "d"), (1e6, 1, "c"), (1.0 + 1e-9, 0, "b"), (1.0, 1, "a")]:
        queue.push(time, priority, event)
    assert [event for _, event in drain(queue)] == ["a", "b", "c", "d"]


def test_equal_durations_add_up_to_their_multiple():
    watch = Stopwatch()
    assert [watch.advance(0.1) for _ in range(1000)] == [n * 0.1 for n in range(1, 1001)]
    assert sum([0.1] * 1000) != 1000 * 0.1


def test_a_change_of_duration_starts_a_new_count():
    watch = Stopwatch()
    times = [watch.advance(d) for d in (2.0, 2.0, 0.5, 0.5, 0.5, 2.0)]
    assert times == [2.0, 4.0, 4.5, 5.0, 5.5, 7.5]
    assert watch.now == 7.5


def test_a_watch_that_starts_later():
    watch = Stopwatch(now=3.0)
    assert [watch.advance(0.0), watch.advance(1.0), watch.advance(1.0)] == [3.0, 4.0, 5.0]
