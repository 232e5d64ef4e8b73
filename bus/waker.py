"""Wakes a thread out of its `select`: one byte through a pair of sockets, however many ask."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator


class _Held(threading.local):
    """Of each thread by itself: how deep it is in blocks, and whether it woke in one."""

    depth = 0
    woke = False


class Waker:
    """`wake` and `once` are for everybody, the rest for the thread that sleeps. `sleeper` is its
    identifier: it looks at what is new before it sleeps, and need not wake itself. `socket` is
    readable once somebody woke it."""

    def __init__(self) -> None:
        self.socket, self._other = socket.socketpair()
        self.socket.setblocking(False)
        self._other.setblocking(False)
        self._woken = False
        self._held = _Held()
        self.sleeper = 0

    @contextlib.contextmanager
    def once(self) -> Iterator[None]:
        """Whatever this thread asks for inside wakes at the end, once. To wake is a system call,
        which gives up Python's lock: whoever is woken by the first of many words finds only that
        one, and whoever says them waits for the lock before each."""
        held = self._held  # this thread's: others wait for nothing
        held.depth += 1
        try:
            yield
        finally:
            held.depth -= 1
            if held.woke and not held.depth:
                held.woke = False
                self.wake()

    def wake(self) -> None:
        if self._held.depth:
            self._held.woke = True
            return
        if self._woken or threading.get_ident() == self.sleeper:
            return  # whoever was woken and has not looked yet finds what is new, too
        self._woken = True
        with contextlib.suppress(OSError):  # closed: there is nobody to wake
            self._other.send(b"!")

    def clear(self) -> None:
        """To be called before looking at what is new: what comes from now on wakes again. Only
        after the read: a wake before it would have its byte read, and wake nobody ever after."""
        with contextlib.suppress(BlockingIOError):
            self.socket.recv(4096)
        self._woken = False

    def sleep(self, limit_s: float) -> None:
        select.select([self.socket], [], [], limit_s)
        self.clear()

    def close(self) -> None:
        self.socket.close()
        self._other.close()
