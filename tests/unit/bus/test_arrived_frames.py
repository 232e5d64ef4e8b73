"""Frames that wait to be stored: each is taken once, and what is held is nobody else's."""

from __future__ import annotations

import pytest

from bus.arrived_frames import ArrivedFrames
from wire.elements import Element
from wire.errors import Malformed
from wire.frame_head import FrameSettings
from wire.frames import Frame, encode_frame, encode_tensor, peek
from wire.ids import ActivationId

AT = ActivationId("r1", 0, 0)
US = "orchestrator"


def frame(content: bytes, at: ActivationId = AT) -> bytes:
    tensor = encode_tensor("x", Element.UINT8, (len(content),), content, "raw")
    return encode_frame(Frame("ab" * 32, at, 0, FrameSettings(), (tensor,)))


FIRST, SECOND = frame(b"first"), frame(b"the second")


def keep(arrived: ArrivedFrames, *frames: bytes) -> None:
    for each in frames:
        arrived.keep("clients/me/s1", peek(each), each)


def test_frames_of_one_name_are_taken_in_their_order() -> None:
    arrived = ArrivedFrames()
    keep(arrived, FIRST, SECOND)
    assert arrived.held_nbytes == len(FIRST) + len(SECOND)
    assert [arrived.take(AT) for _ in range(3)] == [FIRST, SECOND, None]
    assert arrived.held_nbytes == 0


def test_what_is_held_stays_whatever_else_comes_and_goes_under_its_name() -> None:
    arrived = ArrivedFrames()
    keep(arrived, FIRST, SECOND)
    arrived.hold(AT)
    assert arrived.take(AT) == SECOND
    assert arrived.held_nbytes == len(FIRST)
    assert [arrived.take_held(AT) for _ in range(2)] == [FIRST, None]
    assert arrived.held_nbytes == 0


def test_only_one_frame_of_a_name_is_held_and_every_byte_is_counted() -> None:
    arrived = ArrivedFrames()
    keep(arrived, FIRST)
    arrived.hold(AT)
    keep(arrived, SECOND)
    arrived.hold(AT)
    arrived.hold(ActivationId("r2", 0, 0))
    assert arrived.held_nbytes == len(FIRST)
    assert arrived.take(AT) is None
    assert arrived.take_held(AT) == FIRST
    assert arrived.held_nbytes == 0


@pytest.mark.parametrize("broken", [FIRST[:-1], FIRST + b"x", FIRST[:-1] + b"?"])
def test_a_frame_that_is_not_as_its_header_says_is_not_kept(broken: bytes) -> None:
    arrived = ArrivedFrames()
    with pytest.raises(Malformed):
        keep(arrived, broken)
    assert arrived.held_nbytes == 0
    assert arrived.take(AT) is None
