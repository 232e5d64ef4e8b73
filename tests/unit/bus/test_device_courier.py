"""Frames between spool and connection: parts, credits, repeats, and nothing lost in silence."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edge_agent.adapters.courier import Courier
from edge_agent.adapters.link import Link
from edge_agent.adapters.store.spool import Spool
from wire.elements import Element
from wire.errors import CrowdpipeError, Malformed
from wire.frames import Frame, Header, Settings, encode_frame, encode_tensor
from wire.ids import ActivationId
from wire.outbox import Message, Numbered
from wire.parts import Credit, Part, Transfer, decode, encode_credit, encode_part, split
from wire.topics import Topics

TOPICS = Topics()
PACKET_NBYTES = 8 << 10  # so that a part has 4 KiB
HOLD_NBYTES = 1 << 20


def frame(item: int = 0, nbytes: int = 100, cut: int = 1) -> bytes:
    tensor = encode_tensor("t", Element.UINT8, (nbytes,), bytes(nbytes), "raw")
    return encode_frame(Frame("a" * 64, ActivationId("run", item, cut), 0, Settings(), (tensor,)))


def name(item: int = 0, cut: int = 1) -> ActivationId:
    return ActivationId("run", item, cut)


class Side:
    """One agent's courier with its spool; `publish` is what it hands to the connection."""

    def __init__(self, folder: Path, who: str, hold_nbytes: int = HOLD_NBYTES) -> None:
        self.who = who
        self.spool = Spool(folder / who, hold_nbytes)
        self.arrived: list[tuple[str, Header]] = []
        self.lost: list[tuple[ActivationId, str]] = []
        self.wakes = 0
        self.link = Link()
        self.courier = Courier(TOPICS, who, self.spool, hold_nbytes, self, self._woken, self.link)

    def _woken(self) -> None:
        self.wakes += 1

    def frame_arrived(self, sender: str, header: Header) -> None:
        self.arrived.append((sender, header))

    def frame_lost(self, activation: ActivationId, error: CrowdpipeError) -> None:
        self.lost.append((activation, error.kind))

    def hold(self, item: int, nbytes: int) -> ActivationId:
        self.spool.put(name(item), "output", frame(item, nbytes))
        return name(item)

    def publish(self, limit: int = 1000, acknowledge: bool = True) -> list[Numbered]:
        out: list[Numbered] = []
        while len(out) < limit and (numbered := self.courier.next_outgoing()) is not None:
            out.append(numbered)
            if acknowledge:
                self.courier.acknowledged(numbered)
        return out

    def take(self, sender: str, numbered: list[Numbered]) -> None:
        for each in numbered:
            assert each.message.topic == TOPICS.data(self.who, sender)
            self.courier.received(sender, each.message.payload)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Side, Side]:
    sides = Side(tmp_path, "a"), Side(tmp_path, "b")
    for side in sides:
        side.courier.connected(PACKET_NBYTES)
    return sides


def parts_in(published: list[Numbered]) -> list[Part]:
    said = [decode(each.message.payload) for each in published]
    return [part for part in said if isinstance(part, Part)]


def exchange(sender: Side, reader: Side) -> int:
    """Until both are silent; the most parts that were under way at once."""
    most = 0
    while published := sender.publish():
        most = max(most, len(published))
        reader.take(sender.who, published)
        sender.take(reader.who, reader.publish())
    return most


def test_a_small_frame_travels_whole(pair: tuple[Side, Side]):
    a, b = pair
    a.courier.send_frame(a.hold(0, 100), "b")
    assert a.wakes == 1
    assert exchange(a, b) == 1
    assert b.spool.get(name(), "input") == frame(0, 100)
    assert [(sender, header.activation) for sender, header in b.arrived] == [("a", name())]


def test_a_large_frame_travels_in_parts_two_at_a_time(pair: tuple[Side, Side]):
    a, b = pair
    a.courier.send_frame(a.hold(0, 100_000), "b")
    assert exchange(a, b) == 2
    assert b.spool.get(name(), "input") == frame(0, 100_000)
    assert len(b.arrived) == 1


def test_every_message_says_what_it_carries(pair: tuple[Side, Side]):
    a, _ = pair
    a.courier.send_frame(a.hold(7, 100), "b")
    message = a.publish()[0].message
    assert message.properties == (("run", "run"), ("item", "7"), ("cut", "1"))
    assert message.content_type == "application/vnd.crowdpipe.frame"
    assert message.expiry_s == 300


def test_what_we_need_ourselves_stays_here(pair: tuple[Side, Side]):
    a, _ = pair
    a.courier.send_frame(a.hold(0, 100), "a")
    assert a.arrived[0][0] == "a"
    assert a.spool.get(name(), "input") == a.spool.get(name(), "output")
    assert a.publish() == []


def test_control_goes_before_frames(pair: tuple[Side, Side]):
    a, _ = pair
    for item in range(40):
        a.courier.send_frame(a.hold(item, 2000), "b")
    first = a.publish(16, acknowledge=False)
    a.courier.publish(Message("control", b"state"))
    for numbered in first:
        a.courier.acknowledged(numbered)
    assert a.publish()[0].message.topic == "control"


def test_what_the_broker_did_not_acknowledge_is_sent_again(pair: tuple[Side, Side]):
    a, _ = pair
    for item in range(3):
        a.courier.send_frame(a.hold(item, 100), "b")
    _, second, _ = a.publish(acknowledge=False)
    a.courier.acknowledged(second)
    a.courier.disconnected()
    assert a.publish() == []
    a.courier.connected(PACKET_NBYTES)
    again = parts_in(a.publish())
    assert [part.transfer.activation.item for part in again] == [0, 2]


def test_a_fast_link_carries_larger_frames_in_one_part(pair: tuple[Side, Side]) -> None:
    a, b = pair
    a.courier.connected(None)
    a.link.sent(1 << 20, 0.01)
    a.courier.send_frame(a.hold(0, 400_000), "b")
    published = a.publish()
    assert [part.count for part in parts_in(published)] == [1]
    b.take("a", published)
    assert [header.activation for _, header in b.arrived] == [name(0)]


def test_parts_that_were_under_way_are_offered_again_after_a_reconnect(pair: tuple[Side, Side]):
    a, b = pair
    a.courier.send_frame(a.hold(0, 100_000), "b")
    lost = parts_in(a.publish())
    a.courier.disconnected()
    a.courier.connected(PACKET_NBYTES)
    again = a.publish()
    assert [part.index for part in parts_in(again)] == [part.index for part in lost]
    b.take("a", again)
    a.take("b", b.publish())
    exchange(a, b)
    assert b.spool.get(name(), "input") == frame(0, 100_000)


def test_control_messages_of_an_old_connection_are_not_said_on_the_new(pair: tuple[Side, Side]):
    a, _ = pair
    a.courier.publish(Message("control", b"of the old connection"))
    a.courier.disconnected()
    a.courier.connected(PACKET_NBYTES)
    assert a.publish() == []


def test_a_forgotten_output_is_not_sent(pair: tuple[Side, Side]):
    a, _ = pair
    for item in range(2):
        a.courier.send_frame(a.hold(item, 100_000), "b")
    a.publish()
    for item in range(2):
        a.courier.forget(name(item))
        a.spool.forget(name(item), "output")
    a.courier.connected(PACKET_NBYTES)
    assert a.publish() == []


def test_forgetting_one_large_frame_lets_the_next_go(pair: tuple[Side, Side]):
    a, b = pair
    for item in range(2):
        a.courier.send_frame(a.hold(item, 100_000), "b")
    a.publish()
    a.courier.forget(name(0))
    a.spool.forget(name(0), "output")
    exchange(a, b)
    assert [header.activation for _, header in b.arrived] == [name(1)]


def test_a_slow_link_costs_no_memory(tmp_path: Path):
    """Frames leave the spool only as the link takes them."""
    a = Side(tmp_path, "a", hold_nbytes=64 << 20)
    a.courier.connected(None)
    for item in range(100):
        a.courier.send_frame(a.hold(item, 200_000), "b")
    taken = a.publish(1, acknowledge=False)
    assert len(taken) == 1
    assert a.courier._outbox.nbytes < 2 << 20


def test_parts_that_never_get_whole_are_reported(pair: tuple[Side, Side]):
    _, b = pair
    part = next(split(Transfer(name(), 0), bytes(10_000), 4096))
    b.courier.received("a", encode_part(part))
    expires_at = b.courier.expires_at()
    assert expires_at is not None
    b.courier.expire(expires_at)
    assert b.lost == [(name(), "timed_out")]


def test_a_late_repeat_of_a_part_is_no_lost_frame(pair: tuple[Side, Side]):
    a, b = pair
    a.courier.send_frame(a.hold(0, 10_000), "b")
    repeated = parts_in(a.publish())[0]
    a.courier.connected(PACKET_NBYTES)
    exchange(a, b)
    assert len(b.arrived) == 1
    b.courier.received("a", encode_part(repeated))
    b.courier.expire(time.monotonic() + 1000)
    assert b.lost == []


def test_a_dependent_that_returns_no_credit_is_given_up_in_the_end(pair: tuple[Side, Side]):
    a, _ = pair
    a.courier.send_frame(a.hold(0, 100_000), "b")
    now = time.monotonic()
    for _ in range(20):
        a.publish()
        now += 60
        a.courier.expire(now)
    assert a.lost == [(name(), "timed_out")]
    assert a.courier.expires_at() is None


def test_a_frame_beyond_what_may_be_held_is_reported(tmp_path: Path):
    b = Side(tmp_path, "b", hold_nbytes=1000)
    b.courier.connected(PACKET_NBYTES)
    part = Part(Transfer(name(), 0), 0, 1, len(frame(0, 2000)), frame(0, 2000))
    b.courier.received("a", encode_part(part))
    assert b.lost == [(name(), "spool_full")]
    assert b.spool.nbytes == 0


def test_a_frame_under_a_false_name_is_refused(pair: tuple[Side, Side]):
    _, b = pair
    data = frame(item=1)
    b.courier.received("a", encode_part(Part(Transfer(name(2), 0), 0, 1, len(data), data)))
    assert b.lost == [(name(2), "malformed")]
    assert b.arrived == []


def test_garbage_is_refused_and_credits_of_nothing_change_nothing(pair: tuple[Side, Side]):
    a, _ = pair
    with pytest.raises(Malformed):
        a.courier.received("b", b"garbage")
    a.courier.received("b", encode_credit(Credit(Transfer(name(), 0), 0, 2)))
    assert a.publish() == []


def test_a_frame_that_was_released_before_its_turn_is_skipped(pair: tuple[Side, Side]):
    a, _ = pair
    a.hold(0, 100)
    a.courier.send_frame(name(0), "b")
    a.courier.send_frame(a.hold(1, 100), "b")
    a.spool.forget(name(0), "output")
    assert [part.transfer.activation for part in parts_in(a.publish())] == [name(1)]
