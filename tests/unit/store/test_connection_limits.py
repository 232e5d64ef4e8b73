"""Whoever connects gets in, and nobody keeps out who has a secret."""

from __future__ import annotations

from model_store.connection_limits import EACH, MOST, RESERVE, ConnectionLimits

Connection = tuple[str, int]
Limits = ConnectionLimits[Connection]


def come(limits: Limits, address: str, count: int) -> list[Connection]:
    """So many from there; returns what was closed for them."""
    closed = [limits.admit((address, number), address) for number in range(count)]
    return [connection for connection in closed if connection is not None]


def ask(limits: Limits, connection: Connection, user: str) -> Connection | None:
    """A new connection and its first request with a secret; returns what was closed for that."""
    limits.admit(connection, connection[0])
    limits.ask(connection, connection[0])
    return limits.serve(connection, user)


def crowd(limits: Limits, users: int, each: int, address: str = "") -> None:
    for user in range(users):
        for number in range(each):
            assert ask(limits, (address or f"{user}", user * each + number), f"u{user}") is None


def test_all_come_in_while_there_is_room() -> None:
    assert come(ConnectionLimits(), "anywhere", MOST) == []


def test_the_next_one_takes_the_place_of_the_oldest_of_the_address_that_has_most() -> None:
    limits: Limits = ConnectionLimits()
    come(limits, "few", 100)
    come(limits, "many", MOST - 100)
    assert limits.admit(("phone", 0), "phone") == ("many", 0)
    assert limits.admit(("phone", 1), "phone") == ("many", 1)


def test_behind_one_address_too_who_comes_next_gets_in() -> None:
    limits: Limits = ConnectionLimits()
    come(limits, "same", MOST)
    newcomer = ("same", MOST)
    assert limits.admit(newcomer, "same") == ("same", 0)
    limits.ask(newcomer, "same")
    assert limits.serve(newcomer, "phone") is None


def test_of_addresses_that_have_as_many_the_first_one_gives_way() -> None:
    limits: Limits = ConnectionLimits()
    for number in range(MOST):
        limits.admit(("anywhere", number), f"{number}")
    assert limits.admit(("phone", 0), "phone") == ("anywhere", 0)


def test_one_with_a_request_that_nobody_has_looked_at_is_closed_after_those_without() -> None:
    limits: Limits = ConnectionLimits()
    come(limits, "same", MOST)
    for number in range(MOST - 1):
        limits.ask(("same", number), "same")
    assert limits.admit(("new", 0), "new") == ("same", MOST - 1)
    limits.ask(("new", 0), "new")
    assert limits.admit(("phone", 0), "phone") == ("same", 0)


def test_one_that_is_served_is_not_closed_however_many_come() -> None:
    limits: Limits = ConnectionLimits()
    served = ("same", -1)
    ask(limits, served, "phone")
    assert served not in come(limits, "same", 3 * MOST)


def test_one_that_has_answered_waits_like_the_others() -> None:
    limits: Limits = ConnectionLimits()
    ask(limits, ("same", -1), "phone")
    limits.rest(("same", -1), "same")
    assert come(limits, "same", MOST) == [("same", -1)]


def test_one_user_is_served_so_many_at_once_wherever_they_come_from() -> None:
    limits: Limits = ConnectionLimits()
    for number in range(EACH):
        assert ask(limits, (f"address{number % 2}", number), "greedy") is None
    assert ask(limits, ("address2", 0), "greedy") == ("address2", 0)
    assert ask(limits, ("address2", 1), "modest") is None


def test_however_many_are_served_some_places_are_left_for_those_who_come() -> None:
    limits: Limits = ConnectionLimits()
    crowd(limits, (MOST - RESERVE) // EACH, EACH)
    assert come(limits, "new", RESERVE) == []
    assert limits.admit(("new", RESERVE), "new") == ("new", 0)


def test_several_greedy_users_give_way_to_a_modest_one() -> None:
    limits: Limits = ConnectionLimits()
    crowd(limits, (MOST - RESERVE) // EACH, EACH)
    assert [ask(limits, ("phone", n), "phone") for n in range(2)] == [("0", 0), ("1", EACH)]


def test_nobody_gives_way_to_one_who_has_as_many() -> None:
    limits: Limits = ConnectionLimits()
    crowd(limits, MOST - RESERVE, 1)
    assert ask(limits, ("late", 0), "late") == ("late", 0)
    limits.left(("7", 7))
    assert ask(limits, ("late", 1), "late") is None


def test_who_left_makes_room_and_leaving_twice_makes_no_more() -> None:
    limits: Limits = ConnectionLimits()
    come(limits, "anywhere", MOST)
    for _ in range(2):
        limits.left(("anywhere", 5))
    assert limits.admit(("anywhere", MOST), "anywhere") is None
    assert limits.admit(("anywhere", MOST + 1), "anywhere") == ("anywhere", 0)


def test_one_that_was_closed_is_served_no_more() -> None:
    limits: Limits = ConnectionLimits()
    come(limits, "anywhere", MOST + 1)
    limits.ask(("anywhere", 0), "anywhere")
    assert limits.serve(("anywhere", 0), "phone") is None
    limits.rest(("anywhere", 0), "anywhere")
    assert come(limits, "elsewhere", 1) == [("anywhere", 1)]
