from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from flexray.traces.ordered import in_order


def count(first: int, last: int) -> Iterator[int]:
    yield from range(first, last)


@pytest.mark.parametrize("workers", [1, 2, 9])
@pytest.mark.parametrize("depth", [1, 3, 100])
def test_items_come_in_order(workers: int, depth: int) -> None:
    jobs = [partial(count, 10 * i, 10 * i + 10) for i in range(5)]
    assert list(in_order(jobs, workers, depth)) == list(range(50))


def test_jobs_run_ahead_but_not_beyond_depth() -> None:
    started = threading.Event()
    seen: list[int] = []

    def ahead() -> Iterator[int]:
        for i in range(100):
            seen.append(i)
            if i == 3:
                started.set()
            yield i

    items = in_order([partial(count, 0, 1), ahead], workers=2, depth=3)
    assert next(items) == 0
    assert started.wait(10)
    assert len(seen) == 4
    assert list(items) == list(range(100))


def test_an_error_comes_where_it_belongs_and_ends_all_threads() -> None:
    def bad() -> Iterator[int]:
        yield 10
        raise ValueError("bad")

    before = threading.active_count()
    items = in_order([partial(count, 0, 3), bad, partial(count, 0, 1000)], workers=3, depth=2)
    assert [next(items) for _ in range(4)] == [0, 1, 2, 10]
    with pytest.raises(ValueError, match="bad"):
        next(items)
    assert threading.active_count() == before


def test_stopping_early_ends_all_threads_and_closes_iterators() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    before = threading.active_count()
    items = in_order([endless], workers=1, depth=2)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert closed.is_set()
    assert threading.active_count() == before
