"""A few worker threads that share a list of things to do with the thread that calls them.

They stay until the pool is closed, so that each can give back what its own heap still holds: the
allocator keeps one for each thread, and `memory.trim` reaches the end of the caller's alone. Not
`concurrent.futures`, which an idle agent would have in memory for nothing else.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

Thing = TypeVar("Thing")
_Job = Callable[[], None]


class WorkerPool:
    """`helpers` threads besides the caller's."""

    def __init__(self, helpers: int) -> None:
        self._jobs: list[queue.SimpleQueue[_Job | None]] = []
        self._threads: list[threading.Thread] = []
        for _ in range(helpers):
            jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
            thread = threading.Thread(target=_help, args=(jobs,), name="loader", daemon=True)
            thread.start()
            self._jobs.append(jobs)
            self._threads.append(thread)

    def run(self, do: Callable[[Thing], None], things: Sequence[Thing]) -> None:
        """`do` with each of `things`, begun in their order. Raises the first that it raised: what
        was begun is then finished, and nothing more is begun."""
        waiting, failures = deque(things), deque[BaseException]()
        done: queue.SimpleQueue[None] = queue.SimpleQueue()

        def help_out() -> None:
            _take(waiting, do, failures)
            done.put(None)

        for jobs in self._jobs:
            jobs.put(help_out)
        _take(waiting, do, failures)
        for _ in self._jobs:
            done.get()
        if failures:
            raise failures[0]

    def close(self, last: Callable[[], None]) -> None:
        """Each helper does `last` and ends; so does the caller, which then goes on."""
        for jobs in self._jobs:
            jobs.put(last)
            jobs.put(None)
        for thread in self._threads:
            thread.join()
        last()


def _help(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job()


def _take(
    waiting: deque[Thing], do: Callable[[Thing], None], failures: deque[BaseException]
) -> None:
    while not failures:
        try:
            thing = waiting.popleft()
        except IndexError:
            return
        try:
            do(thing)
        except BaseException as error:  # raised again where it was asked for
            failures.append(error)
