"""What is read ahead or held comes out as it went in, and nothing is read in vain."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.buffered_socket import AHEAD_NBYTES, BufferedSocket


class Ends:
    """A link under test, the other side, and the sizes of the reads that the link was asked for."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        for each in (ours, self.theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        ours.setblocking(False)
        self.link = BufferedSocket(ours)

    def close(self) -> None:
        self.link.close()
        self.theirs.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    yield found
    found.close()


def drained(link: BufferedSocket, sizes: list[int]) -> bytes:
    """All that is there, asked for in pieces of these sizes in turn; readable once."""
    link.readable()
    got, turn = bytearray(), 0
    while True:
        try:
            data = link.recv(sizes[turn % len(sizes)])
        except BlockingIOError:
            return bytes(got)
        if not data:
            return bytes(got)
        got += data
        turn += 1


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(1, 2 * AHEAD_NBYTES), min_size=1, max_size=6),
    st.lists(st.sampled_from([7, 700, 5_000, AHEAD_NBYTES, 300_000]), min_size=1, max_size=5),
)
def test_all_comes_out_once_and_in_order(bursts: list[int], sizes: list[int]) -> None:
    ends, sent, got = Ends(), b"", b""
    for number, nbytes in enumerate(bursts):
        data = bytes([number]) * nbytes
        ends.theirs.sendall(data)
        sent += data
        got += drained(ends.link, sizes)
    ends.theirs.close()
    while more := drained(ends.link, sizes):
        got += more
    assert got == sent
    assert ends.link.read_nbytes == len(sent)
    ends.close()


def test_many_small_messages_are_one_read(ends: Ends) -> None:
    ends.theirs.sendall(b"x" * 700 * 20)
    ends.link.readable()
    assert ends.link.recv(1) == b"x"
    assert ends.link.pending() == 700 * 20 - 1
    ends.theirs.sendall(b"y")
    assert ends.link.recv(1 << 15) == b"x" * (700 * 20 - 1)
    with pytest.raises(BlockingIOError):
        ends.link.recv(1)  # the y is there, but nobody has said so
    ends.link.readable()
    assert ends.link.recv(1) == b"y"


def test_a_message_a_little_larger_than_what_is_read_ahead_comes_whole(ends: Ends) -> None:
    ends.theirs.sendall(b"h" + b"b" * (AHEAD_NBYTES + 5_000))
    ends.link.readable()
    assert ends.link.recv(1) == b"h"
    got = ends.link.recv(AHEAD_NBYTES + 5_000)
    got += ends.link.recv(AHEAD_NBYTES + 5_000 - len(got))
    assert got == b"b" * (AHEAD_NBYTES + 5_000)
    assert ends.link.pending() == 0


def test_a_closed_connection_reads_as_nothing(ends: Ends) -> None:
    ends.theirs.sendall(b"last")
    ends.theirs.close()
    ends.link.readable()
    assert ends.link.recv(4) == b"last"
    ends.link.readable()
    assert ends.link.recv(1) == b""


def test_after_a_shutdown_nothing_more_is_read(ends: Ends) -> None:
    ends.theirs.sendall(b"unread")
    ends.link.readable()
    assert ends.link.recv(1) == b"u"
    ends.link.shutdown(socket.SHUT_RDWR)
    assert ends.link.pending() == 0
    assert ends.link.recv(1) == b""


def test_what_is_sent_in_one_turn_goes_together(ends: Ends) -> None:
    ends.link.hold()
    assert ends.link.send(b"one") == 3
    assert ends.link.send(memoryview(b"two")) == 3
    ends.theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        ends.theirs.recv(10)
    assert ends.link.unsent
    assert ends.link.flush()
    assert ends.theirs.recv(10) == b"onetwo"
    assert ends.link.send(b"three") == 5
    assert ends.theirs.recv(10) == b"three"


def test_nothing_overtakes_what_was_held(ends: Ends) -> None:
    """However little the other side takes, and whatever is held, small or large."""
    ends.theirs.setblocking(False)
    sent, got = bytearray(), bytearray()
    for turn in range(60):
        ends.link.hold()
        for nbytes in (3, 40 << 10, 7, 300, 200 << 10, 1):
            data = bytes([turn]) * nbytes
            with contextlib.suppress(BlockingIOError):
                sent += data[: ends.link.send(data)]
        ends.link.flush()
        if turn % 4 == 0:
            got += ends.theirs.recv(50_000)
    while len(got) < len(sent):
        ends.link.flush()
        got += ends.theirs.recv(1 << 20)
    assert got == sent


def test_what_is_left_goes_when_there_is_room(ends: Ends) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            ends.link.send(bytes(1 << 16))
    ends.link.hold()
    ends.link.send(b"last")
    assert not ends.link.flush()
    assert ends.link.unsent
    ends.theirs.setblocking(False)
    got = b""
    while ends.link.unsent:
        with contextlib.suppress(BlockingIOError):
            got = ends.theirs.recv(1 << 20)
        ends.link.flush()
    with contextlib.suppress(BlockingIOError):
        while more := ends.theirs.recv(1 << 20):
            got = more
    assert got.endswith(b"last")


def test_a_broken_connection_is_told_when_it_is_flushed(ends: Ends) -> None:
    ends.link.hold()
    ends.link.send(b"x")
    ends.theirs.close()
    with pytest.raises(OSError):  # noqa: PT011 (which one differs by system)
        ends.link.flush()


class Records:
    """A link as TLS has it: one record at a time, of which some may wait decrypted."""

    def __init__(self, *records: bytes) -> None:
        self.records = list(records)
        self.left = b""
        self.close = self.fileno = self.setblocking = None
        self.setsockopt = self.getpeername = None

    def pending(self) -> int:
        return len(self.left)

    def recv(self, nbytes: int) -> bytes:
        if not self.left:
            if not self.records:
                raise BlockingIOError
            self.left = self.records.pop(0)
        data, self.left = self.left[:nbytes], self.left[nbytes:]
        return data

    def send(self, data: bytes) -> int:
        raise ssl.SSLWantWriteError


def test_what_tls_does_not_take_is_sent_later() -> None:
    link = BufferedSocket(Records())  # type: ignore[arg-type]  # stands for a socket
    link.hold()
    assert link.send(b"held") == 4
    assert not link.flush()
    assert link.unsent


def test_a_message_in_several_records_comes_whole() -> None:
    records = Records(b"h" + b"b" * 9, b"b" * 10, b"b" * 5 + b"next")
    link = BufferedSocket(records)  # type: ignore[arg-type]  # stands for a socket
    link.readable()
    assert link.recv(1) == b"h"
    assert b"".join(link.recv(24 - taken) for taken in (0, 9, 19)) == b"b" * 24
    assert link.pending() == 4
    assert link.recv(4) == b"next"
    with pytest.raises(BlockingIOError):
        link.recv(1)
