"""A wake is never lost: not even one that comes while an earlier one is taken note of."""

from __future__ import annotations

import contextlib
import select
import threading
from typing import Any

from bus.waker import Waker


class Meddling:
    """A socket that wakes its waker just before it is read."""

    def __init__(self, waker: Waker) -> None:
        self.waker, self.real = waker, waker.socket

    def recv(self, nbytes: int) -> bytes:
        self.waker.wake()
        return self.real.recv(nbytes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def readable(waker: Waker) -> bool:
    return bool(select.select([waker.socket.fileno()], [], [], 0.0)[0])


def test_a_wake_while_the_last_is_read_leaves_later_ones_heard() -> None:
    waker = Waker()
    waker.wake()
    waker.socket = Meddling(waker)  # type: ignore[assignment] # stands for the socket
    waker.clear()
    waker.wake()
    assert readable(waker)
    waker.close()


def test_no_wake_among_thousands_is_lost() -> None:
    waker, heard, done = Waker(), threading.Event(), threading.Event()

    def wake_again() -> None:
        while not done.is_set():
            waker.wake()
            if not heard.wait(5.0):
                return
            heard.clear()

    thread = threading.Thread(target=wake_again)
    thread.start()
    for _ in range(5000):
        ready, _, _ = select.select([waker.socket], [], [], 5.0)
        assert ready, "a wake was lost"
        waker.clear()
        heard.set()
    done.set()
    heard.set()
    thread.join()
    waker.close()


def test_what_is_woken_for_in_a_block_wakes_once_at_its_end() -> None:
    waker = Waker()
    with waker.once():
        with waker.once():
            waker.wake()
        waker.wake()
        assert not readable(waker)
    assert readable(waker)
    assert waker.socket.recv(10) == b"!"
    waker.close()


def test_a_block_in_which_nobody_woke_wakes_nobody() -> None:
    waker = Waker()
    with waker.once():
        pass
    assert not readable(waker)
    waker.close()


def test_a_block_that_fails_wakes_all_the_same() -> None:
    waker = Waker()
    with contextlib.suppress(ZeroDivisionError), waker.once():
        waker.wake()
        raise ZeroDivisionError
    assert readable(waker)
    waker.close()


def test_while_one_thread_is_in_a_block_others_wake_at_once() -> None:
    waker = Waker()
    with waker.once():
        other = threading.Thread(target=waker.wake)
        other.start()
        other.join()
        assert readable(waker)
    waker.close()


def test_the_thread_that_sleeps_wakes_nobody() -> None:
    waker = Waker()
    waker.sleeper = threading.get_ident()
    waker.wake()
    assert not readable(waker)
    waker.close()
