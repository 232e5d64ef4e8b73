"""The courier between broker and journal: parts, credits, bounds, and frames sent by reference."""

from __future__ import annotations

import time
from collections import deque

import pytest

from orchestrator.adapters.courier import AHEAD_NBYTES, REASSEMBLY_S, Courier
from orchestrator.adapters.pending import Pending
from wire.elements import Element
from wire.errors import CrowdpipeError, Malformed
from wire.frames import Frame, Header, Settings, encode_frame, encode_tensor
from wire.ids import ActivationId
from wire.outbox import Message
from wire.parts import (
    PART_NBYTES,
    Credit,
    Part,
    Transfer,
    decode,
    encode_credit,
    encode_part,
    split,
)
from wire.topics import Topics

TOPICS = Topics()
SENDER = "clients/me/s1"
US = "orchestrator"
MODEL = "ab" * 32
BOUND = 4 << 20


def frame_of(nbytes: int, item: int = 0, run: str = "r") -> bytes:
    tensor = encode_tensor("x", Element.UINT8, (nbytes,), bytes(nbytes), "raw")
    at = ActivationId(run, item, 0)
    return encode_frame(Frame(MODEL, at, 0, Settings(), (tensor,)))


class Bench:
    """A courier whose connection is a list, and whose owner keeps what arrives."""

    def __init__(self) -> None:
        self.published: deque[Message] = deque()
        self.arrived: list[tuple[str, Header, bytes]] = []
        self.lost: list[tuple[str, ActivationId, CrowdpipeError]] = []
        self.waiting_nbytes = 0
        self.held_nbytes = 0
        self.courier = Courier(TOPICS, US, self, BOUND, lambda: self.held_nbytes)
        self.courier.post = self
        self.courier.connected(None)

    def publish(self, message: Message) -> None:
        self.published.append(message)

    def frame_arrived(self, sender: str, header: Header, frame: bytes) -> None:
        self.arrived.append((sender, header, frame))

    def frame_lost(self, sender: str, activation: ActivationId, error: CrowdpipeError) -> None:
        self.lost.append((sender, activation, error))

    def receive(self, part: Part, sender: str = SENDER) -> None:
        self.courier.received(TOPICS.data(US, sender), encode_part(part))

    def said(self) -> list[Part | Credit]:
        """What was published since asked last."""
        pieces = [decode(message.payload) for message in self.published]
        self.published.clear()
        return pieces

    def credit(self, part: Part, to: str = SENDER) -> None:
        credit = encode_credit(Credit(part.transfer, part.index, part.count))
        self.courier.received(TOPICS.data(US, to), credit)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def parts_of(frame: bytes, item: int = 0, run: str = "r") -> list[Part]:
    return list(split(Transfer(ActivationId(run, item, 0), 0), frame, PART_NBYTES))


def test_parts_in_any_order_become_the_frame_and_each_is_credited(bench: Bench):
    frame = frame_of(3 * PART_NBYTES)
    parts = parts_of(frame)
    for part in reversed(parts):
        bench.receive(part)
    ((sender, header, whole),) = bench.arrived
    assert (sender, whole) == (SENDER, frame)
    assert header.activation == ActivationId("r", 0, 0)
    credits = [piece for piece in bench.said() if isinstance(piece, Credit)]
    assert [credit.index for credit in credits] == [part.index for part in reversed(parts)]


def test_a_small_frame_needs_no_credit(bench: Bench):
    bench.receive(*parts_of(frame_of(100)))
    assert len(bench.arrived) == 1
    assert bench.said() == []


def test_at_the_bound_parts_get_no_credit_until_there_is_room(bench: Bench):
    bench.held_nbytes = BOUND
    parts = parts_of(frame_of(2 * PART_NBYTES))
    bench.receive(parts[0])
    assert bench.said() == []
    assert bench.lost == []
    bench.held_nbytes = 0
    for part in parts:
        bench.receive(part)
    assert len(bench.arrived) == 1


def test_at_the_bound_a_small_frame_is_told_as_lost(bench: Bench):
    bench.held_nbytes = BOUND
    bench.receive(*parts_of(frame_of(100)))
    ((sender, activation, error),) = bench.lost
    assert (sender, activation, error.kind) == (SENDER, ActivationId("r", 0, 0), "queue_full")


def test_a_frame_that_can_never_fit_is_told_once_and_its_sender_comes_to_an_end(bench: Bench):
    parts = parts_of(frame_of(2 * BOUND))
    for part in parts:
        bench.receive(part)
    assert [error.kind for _, _, error in bench.lost] == ["too_large"]
    assert len(bench.said()) == len(parts)


def test_a_frame_that_stays_incomplete_is_told_as_lost(bench: Bench):
    bench.receive(parts_of(frame_of(2 * PART_NBYTES))[0])
    assert bench.courier.wake_at() is not None
    bench.courier.expire(time.monotonic() + REASSEMBLY_S + 1)
    assert [error.kind for _, _, error in bench.lost] == ["timed_out"]


def test_a_late_repeat_of_a_part_is_no_lost_frame(bench: Bench):
    parts = parts_of(frame_of(2 * PART_NBYTES))
    for part in [*parts, parts[0]]:
        bench.receive(part)
    bench.courier.expire(time.monotonic() + REASSEMBLY_S + 1)
    assert len(bench.arrived) == 1
    assert bench.lost == []


def test_a_frame_that_is_not_what_its_parts_say_is_told_as_lost(bench: Bench):
    frame = frame_of(100, item=7)
    bench.receive(Part(Transfer(ActivationId("r", 0, 0), 0), 0, 1, len(frame), frame))
    ((_, activation, error),) = bench.lost
    assert activation == ActivationId("r", 0, 0)
    assert isinstance(error, Malformed)


def test_a_frame_whose_planes_are_cut_short_is_told_as_lost(bench: Bench):
    frame = frame_of(100)[:-1]
    bench.receive(Part(Transfer(ActivationId("r", 0, 0), 0), 0, 1, len(frame), frame))
    assert [error.kind for _, _, error in bench.lost] == ["malformed"]


def test_a_large_frame_goes_two_parts_ahead_of_its_credits(bench: Bench):
    frame = frame_of(4 * PART_NBYTES)
    transfer = Transfer(ActivationId("r", 0, 0), 0)
    bench.courier.send(SENDER, transfer, len(frame), lambda: frame)
    got: list[Part] = []
    while pieces := bench.said():
        assert len(pieces) <= 2
        for piece in pieces:
            assert isinstance(piece, Part)
            got.append(piece)
            bench.credit(piece)
    assert b"".join(bytes(part.data) for part in got) == frame


def test_a_frame_says_what_it_is_without_being_decoded(bench: Bench):
    frame = frame_of(100, item=5)
    bench.courier.send(SENDER, Transfer(ActivationId("r", 5, 0), 0), len(frame), lambda: frame)
    (message,) = bench.published
    assert message.topic == TOPICS.data(SENDER, US)
    assert {("run", "r"), ("item", "5"), ("cut", "0")} <= set(message.properties)
    assert message.expiry_s is not None


def test_frames_are_loaded_when_their_turn_comes(bench: Bench):
    loaded: list[int] = []

    def load(item: int) -> bytes:
        loaded.append(item)
        return frame_of(100, item)

    bench.waiting_nbytes = AHEAD_NBYTES + 1
    for item in range(5):
        transfer = Transfer(ActivationId("r", item, 0), 0)
        bench.courier.send(SENDER, transfer, 200, lambda item=item: load(item))
    assert loaded == []
    bench.waiting_nbytes = 0
    bench.courier.fill()
    assert loaded == list(range(5))


def test_what_is_asked_twice_while_it_waits_is_sent_once(bench: Bench):
    bench.waiting_nbytes = AHEAD_NBYTES + 1
    transfer = Transfer(ActivationId("r", 0, 0), 0)
    for _ in range(2):
        bench.courier.send(SENDER, transfer, 200, lambda: frame_of(100))
    bench.waiting_nbytes = 0
    bench.courier.fill()
    assert len(bench.said()) == 1


@pytest.mark.parametrize("nbytes", [100, 2 * PART_NBYTES])
def test_what_was_let_go_meanwhile_is_not_sent(bench: Bench, nbytes: int):
    bench.courier.send(SENDER, Transfer(ActivationId("r", 0, 0), 0), nbytes, lambda: None)
    assert bench.said() == []


def test_nothing_of_a_forgotten_run_is_sent(bench: Bench):
    bench.waiting_nbytes = AHEAD_NBYTES + 1
    for run in ("gone", "here"):
        transfer = Transfer(ActivationId(run, 0, 0), 0)
        bench.courier.send(SENDER, transfer, 200, lambda run=run: frame_of(100, 0, run))
    bench.courier.forget_run("gone")
    bench.waiting_nbytes = 0
    bench.courier.fill()
    (piece,) = bench.said()
    assert piece.transfer.activation.run == "here"


def test_what_is_no_piece_is_refused(bench: Bench):
    with pytest.raises(Malformed):
        bench.courier.received(TOPICS.data(US, SENDER), b"nonsense")


def test_pending_frames_of_one_name_are_taken_in_the_order_they_came():
    pending, at = Pending(), ActivationId("r", 0, 0)
    pending.put(at, b"a stranger's")
    pending.put(at, b"the true one")
    assert pending.nbytes == 24
    assert [pending.take(at) for _ in range(3)] == [b"a stranger's", b"the true one", None]
    assert pending.nbytes == 0
