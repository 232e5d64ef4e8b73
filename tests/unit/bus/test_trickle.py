"""When the next read waits a moment, and when it must not."""

from __future__ import annotations

import pytest

from bus.link import Link
from bus.trickle import PAUSE_S, Trickle

SEGMENT = 1448


def read(trickle: Trickle, nbytes: int, unfinished: bool, now: float = 5.0) -> float:
    """For how long the next read waits."""
    trickle.read(nbytes, now, now, unfinished=unfinished)
    return trickle.pause_s(now)


def test_in_the_middle_of_what_trickles_in_the_next_read_waits_a_moment():
    trickle = Trickle(Link())
    assert read(trickle, SEGMENT, unfinished=True) == pytest.approx(PAUSE_S)
    assert trickle.pause_s(5.0 + 2 * PAUSE_S) == 0


@pytest.mark.parametrize("nbytes", [4, 300, SEGMENT, 90_000])
def test_between_messages_nothing_waits(nbytes: int):
    assert read(Trickle(Link()), nbytes, unfinished=False) == 0


@pytest.mark.parametrize("nbytes", [4, 300, 128 << 10, 400_000])
def test_the_rest_of_a_small_message_and_what_comes_all_at_once_do_not_wait(nbytes: int):
    assert read(Trickle(Link()), nbytes, unfinished=True) == 0


def test_nothing_waits_on_a_link_that_was_measured_to_be_fast():
    link = Link()
    link.received(1 << 20, 0.01)
    assert read(Trickle(link), SEGMENT, unfinished=True) == 0


def test_a_link_is_seen_to_be_fast_by_what_came_while_a_read_waited():
    trickle = Trickle(Link())
    read(trickle, 64 << 10, unfinished=True, now=5.0)
    assert read(trickle, 300 << 10, unfinished=True, now=5.0 + PAUSE_S) == 0
    assert read(trickle, 64 << 10, unfinished=False, now=5.005) == 0
    assert read(trickle, 64 << 10, unfinished=True, now=6.0) == 0


def test_what_a_slow_link_gathered_in_a_moment_does_not_make_it_fast():
    trickle = Trickle(Link())
    read(trickle, SEGMENT, unfinished=True, now=5.0)
    assert read(trickle, 50_000, unfinished=True, now=5.004) > 0
    assert read(trickle, 90_000, unfinished=True, now=5.1) > 0


def test_a_new_connection_is_not_as_fast_as_the_last_was():
    trickle = Trickle(Link())
    read(trickle, 64 << 10, unfinished=True, now=5.0)
    read(trickle, 300 << 10, unfinished=True, now=5.004)
    trickle.restart()
    assert read(trickle, SEGMENT, unfinished=True, now=6.0) > 0
