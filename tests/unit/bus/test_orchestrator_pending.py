"""Frames that wait to be stored: each is taken once, and what is held is nobody else's."""

from __future__ import annotations

from orchestrator.adapters.pending import Pending
from wire.ids import ActivationId

AT = ActivationId("r1", 0, 0)


def test_frames_of_one_name_are_taken_in_their_order() -> None:
    pending = Pending()
    pending.put(AT, b"first")
    pending.put(AT, b"second")
    assert [pending.take(AT) for _ in range(3)] == [b"first", b"second", None]
    assert pending.nbytes == 0


def test_what_is_held_stays_whatever_else_comes_and_goes_under_its_name() -> None:
    pending = Pending()
    pending.put(AT, b"mine")
    pending.put(AT, b"another's")
    pending.hold(AT)
    assert pending.take(AT) == b"another's"
    assert pending.nbytes == len(b"mine")
    assert [pending.take_held(AT) for _ in range(2)] == [b"mine", None]
    assert pending.nbytes == 0


def test_only_one_frame_of_a_name_is_held_and_every_byte_is_counted() -> None:
    pending = Pending()
    pending.put(AT, b"first")
    pending.hold(AT)
    pending.put(AT, b"the second")
    pending.hold(AT)
    pending.hold(ActivationId("r2", 0, 0))
    assert pending.nbytes == len(b"first")
    assert pending.take(AT) is None
    assert pending.take_held(AT) == b"first"
    assert pending.nbytes == 0
