"""Wakes a thread out of its `select`: one byte through a pair of sockets, however many ask."""

from __future__ import annotations

import contextlib
import select
import socket


class Waker:
    """`wake` is for everybody, the rest for the thread that sleeps. `socket` is readable once
    somebody woke it."""

    def __init__(self) -> None:
        self.socket, self._other = socket.socketpair()
        self.socket.setblocking(False)
        self._other.setblocking(False)
        self._woken = False

    def wake(self) -> None:
        if self._woken:
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
