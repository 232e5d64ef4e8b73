"""What a link was seen to carry: bytes a second, and the round trip of small messages."""

from __future__ import annotations

import pytest

from bus.link import LATE, Link
from bus.sending_rate import SendingRate


def test_the_links_bandwidth_comes_from_large_transfers_only():
    link = Link()
    link.sent(100, 1.0)
    assert link.nbytes_per_s is None
    link.received(1 << 20, 1.0)
    assert link.nbytes_per_s == 1 << 20
    link.sent(1 << 20, 0.5)
    assert link.nbytes_per_s == 2 << 20


def test_who_has_little_to_send_does_not_make_the_link_slow():
    link = Link()
    for seconds in (0.01, 0.01, 0.2, 0.3, 0.2, 0.001):
        link.sent(1 << 20, seconds)
    assert link.nbytes_per_s == pytest.approx((1 << 20) / 0.01)


def test_a_link_that_has_become_slow_is_known_to_be_after_some_transfers():
    link = Link()
    for seconds in (0.01, 0.01, *[0.2] * LATE):
        link.sent(1 << 20, seconds)
    assert link.nbytes_per_s == pytest.approx((1 << 20) / 0.2)


def test_the_links_round_trip_is_the_least_of_late():
    link = Link()
    for seconds in (0.05, 0.004, 0.9):
        link.echoed(seconds)
    assert link.rtt_s == pytest.approx(0.0044)


def test_acknowledgements_that_come_in_bursts_do_not_make_a_link_fast():
    link = Link()
    sending = SendingRate(link)
    for index in range(4):  # 1 MiB in 84 ms, acknowledged all at once
        sending.began(256 << 10, 10.0 + 0.001 * index)
    for index in range(4):
        sending.acknowledged(256 << 10, 10.0 + 0.001 * index, 10.084 + 0.0001 * index)
    assert link.nbytes_per_s == pytest.approx((1 << 20) / 0.0843)


def test_the_way_of_a_small_message_is_not_the_links_bandwidth():
    link = Link()
    sending = SendingRate(link)
    sending.began(100, 1.0)
    sending.acknowledged(100, 1.0, 1.02)
    assert (link.rtt_s, link.nbytes_per_s) == (pytest.approx(0.02), None)
    sending.began(1 << 20, 2.0)
    sending.began(100, 2.01)
    sending.acknowledged(100, 2.01, 2.9)  # waited behind the large one
    sending.acknowledged(1 << 20, 2.0, 3.02)
    assert link.rtt_s == pytest.approx(0.02)
    assert link.nbytes_per_s == pytest.approx(1 << 20)


def test_a_link_that_is_never_idle_is_measured_all_the_same():
    link = Link()
    sending = SendingRate(link)
    for index in range(40):  # two on their way at any time, ten a second
        sending.began(256 << 10, 0.1 * index)
        if index:
            sending.acknowledged(256 << 10, 0.1 * (index - 1), 0.1 * index)
    assert link.nbytes_per_s == pytest.approx(10 * (256 << 10), rel=0.01)


def test_what_a_lost_connection_left_under_way_counts_no_more():
    link = Link()
    sending = SendingRate(link)
    sending.began(1 << 20, 0.0)
    sending.restart()
    sending.began(1 << 20, 100.0)
    sending.acknowledged(1 << 20, 100.0, 101.0)
    assert link.nbytes_per_s == pytest.approx(1 << 20)
