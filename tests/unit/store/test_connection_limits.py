"""Nobody takes all connections, and those with a secret always find one."""

from __future__ import annotations

from model_store.connection_limits import (
    KNOWN_EACH,
    MOST,
    REMEMBERED,
    RESERVE,
    STRANGERS_EACH,
    ConnectionLimits,
)


def admitted(limits: ConnectionLimits, address: str, count: int) -> int:
    return sum(limits.admit(address) for _ in range(count))


def test_a_stranger_gets_some_and_one_with_a_secret_more() -> None:
    limits = ConnectionLimits()
    assert admitted(limits, "stranger", MOST) == STRANGERS_EACH
    limits.know("phone")
    assert admitted(limits, "phone", MOST) == KNOWN_EACH


def test_however_many_strangers_come_some_are_left_for_those_with_a_secret() -> None:
    limits = ConnectionLimits()
    limits.know("phone")
    strangers = sum(admitted(limits, f"stranger{number}", 100) for number in range(100))
    assert strangers == MOST - RESERVE
    assert admitted(limits, "phone", MOST) == RESERVE


def test_who_left_makes_room() -> None:
    limits = ConnectionLimits()
    admitted(limits, "stranger", MOST)
    limits.left("stranger")
    assert admitted(limits, "stranger", MOST) == 1


def test_so_many_addresses_are_remembered_and_no_more() -> None:
    limits = ConnectionLimits()
    for number in range(REMEMBERED + 1):
        limits.know(f"phone{number}")
    assert admitted(limits, "phone0", MOST) == STRANGERS_EACH
    assert admitted(limits, f"phone{REMEMBERED}", MOST) == KNOWN_EACH
