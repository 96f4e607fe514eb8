"""Iterators that run ahead in threads and are consumed in order, so that no result depends on which ends first.

zlib, pyarrow and most of NumPy release Python's global lock, so threads keep several cores busy on one set of sums.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class _Ended:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Ahead(Generic[T]):
    """One iterator in a thread of its own, at most ``depth`` items ahead."""

    def __init__(self, job: Callable[[], Iterator[T]], depth: int) -> None:
        self._job, self._depth = job, depth
        self._items: deque[T | _Ended] = deque()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        error: BaseException | None = None
        items: Iterator[T] | None = None
        try:
            items = self._job()
            for item in items:
                if not self._put(item):
                    return
        except BaseException as raised:  # noqa: BLE001 - raised again where the items are consumed
            error = raised
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        self._put(_Ended(error), last=True)

    def _put(self, item: T | _Ended, last: bool = False) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: last or self._closed or len(self._items) < self._depth)
            self._items.append(item)
            self._changed.notify_all()
            return not self._closed

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items)
                item = self._items.popleft()
                self._changed.notify_all()
            if isinstance(item, _Ended):
                if item.error is not None:
                    raise item.error
                return
            yield item

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()


def in_order(jobs: Sequence[Callable[[], Iterator[T]]], workers: int, depth: int) -> Iterator[T]:
    """Yield the items of all jobs, job after job, while the next ``workers`` - 1 jobs already run ahead.

    Args:
        jobs: Each returns an iterator; it runs in a thread.
        workers: So many jobs run at once.
        depth: So many items of a job wait at most until they are consumed.
    """
    running: deque[_Ahead[T]] = deque()
    waiting = deque(jobs)
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(_Ahead(waiting.popleft(), depth))
            yield from running[0]
            running.popleft().close()
    finally:
        for ahead in running:
            ahead.close()
