"""Iterators that run ahead in threads and are consumed in order, so that no result depends on which ends first.

zlib, pyarrow and most of NumPy release Python's global lock, so threads occupy several cores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class _Ahead(Generic[T]):
    """One iterator in a thread of its own, at most ``depth`` items ahead."""

    def __init__(self, job: Callable[[], Iterator[T]], depth: int) -> None:
        self._items: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
        self._room = Semaphore(depth)
        self._closed = False
        self._thread = Thread(target=self._run, args=(job,), daemon=True)
        self._thread.start()

    def _run(self, job: Callable[[], Iterator[T]]) -> None:
        """Put the items, each in a tuple, and then the error or None."""
        items: Iterator[T] | None = None
        try:
            for item in (items := job()):
                self._room.acquire()
                if self._closed:
                    break
                self._items.put((item,))
            self._items.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the items are consumed
            self._items.put(error)
        finally:
            if (close := getattr(items, "close", None)) is not None:
                close()

    def __iter__(self) -> Iterator[T]:
        while isinstance(found := self._items.get(), tuple):
            self._room.release()
            yield found[0]
        if found is not None:
            raise found

    def close(self) -> None:
        self._closed = True
        self._room.release()
        self._thread.join()


def in_order(jobs: Sequence[Callable[[], Iterator[T]]], workers: int, depth: int) -> Iterator[T]:
    """Yield the items of all jobs, job after job, while the next ``workers`` - 1 jobs run ahead.

    Args:
        jobs: Each returns an iterator; it runs in a thread.
        workers: How many jobs run at once.
        depth: How many items of a job may wait to be consumed.
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
