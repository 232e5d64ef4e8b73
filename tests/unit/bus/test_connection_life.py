"""A connection's states: only the table's steps, delays that grow, and one end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.connection_policy import ConnectionPolicy
from bus.connection_state import (
    CHECK,
    CONNECT_LIMIT_S,
    REMOVED,
    TABLE,
    ConnectionLife,
    ConnectionState,
)
from wire.errors import Refused, Untrusted
from wire.lifecycle import IllegalTransition

POLICY = ConnectionPolicy(first_delay_s=1.0, longest_delay_s=8.0)
State = ConnectionState


def life(jitter: float = 1.0) -> ConnectionLife:
    return ConnectionLife(POLICY, lambda: jitter)


def up(of: ConnectionLife, now: float = 0.0) -> ConnectionLife:
    of.begin(now)
    of.accepted(now)
    of.granted(now)
    return of


def test_every_state_can_be_reached_and_left_unless_it_is_an_end():
    assert set(TABLE) == set(State)
    reached = {State.NEW} | {to for steps in TABLE.values() for to in steps}
    assert reached == set(State)
    assert [state for state, steps in TABLE.items() if not steps] == [State.CLOSED, State.FAILED]


def test_it_is_up_once_every_subscription_is_granted():
    it = life()
    it.begin(0.0)
    assert (it.state, it.attached, it.carries) == (State.CONNECTING, True, False)
    it.accepted(0.1)
    assert (it.state, it.carries, it.resumes) == (State.SUBSCRIBING, False, False)
    it.granted(0.2)
    assert (it.state, it.carries, it.resumes) == (State.UP, True, True)


def test_each_try_that_fails_doubles_the_delay_up_to_the_longest():
    it, now, delays = life(), 0.0, []
    for _ in range(6):
        it.begin(now)
        it.lost("nobody there", now)
        delays.append(it.retry_at - now)
        now = it.retry_at
    assert delays == [1, 2, 4, 8, 8, 8]


def test_a_connection_that_was_up_is_tried_again_soon():
    it = life()
    for _ in range(5):
        it.begin(0.0)
        it.lost("nobody there", 0.0)
    up(it, 100.0)
    it.lost("cut", 200.0)
    assert it.retry_at == 201.0


def test_delays_are_spread():
    it = life(jitter=0.75)
    it.begin(0.0)
    it.lost("nobody there", 0.0)
    assert it.retry_at == 0.75


def test_a_broker_that_does_not_answer_is_as_good_as_none():
    it = life()
    it.begin(0.0)
    it.accepted(1.0)
    it.expire(CONNECT_LIMIT_S - 0.1)
    assert it.state is State.SUBSCRIBING
    it.expire(CONNECT_LIMIT_S)
    assert it.state is State.LOST
    assert "did not answer" in it.reason


def test_a_connection_that_is_up_has_no_such_limit():
    it = up(life())
    it.expire(1e9)
    assert it.state is State.UP


def test_the_first_reason_stands():
    it = life()
    it.begin(0.0)
    it.lost("the broker refuses us", 1.0)
    it.lost("the connection was closed", 1.0)
    it.failed(Refused("too late"), 1.0)
    assert (it.state, it.reason, it.error) == (State.LOST, "the broker refuses us", None)


def test_what_would_not_help_is_not_tried_again():
    it, error = life(), Refused("wrong secret")
    it.begin(0.0)
    it.failed(error, 1.0)
    it.lost("and closed", 1.0)
    it.close(9.0, 2.0)
    assert (it.state, it.error, it.ended) == (State.FAILED, error, True)


def test_what_is_up_drains_before_it_closes():
    it = up(life())
    it.close(limit_at=10.0, now=1.0)
    assert (it.state, it.carries) == (State.DRAINING, True)
    it.close(limit_at=10.0, now=2.0)
    assert it.state is State.DRAINING
    it.drained(3.0)
    assert it.state is State.CLOSED


def test_draining_has_a_limit():
    it = up(life())
    it.close(limit_at=10.0, now=10.0)
    assert it.state is State.CLOSED


@pytest.mark.parametrize("steps", [(), ("begin",), ("begin", "accepted"), ("begin", "lost")])
def test_what_is_not_up_closes_at_once(steps: tuple[str, ...]):
    it = life()
    for step in steps:
        getattr(it, step)(*(("cut", 0.0) if step == "lost" else (0.0,)))
    it.close(limit_at=10.0, now=1.0)
    assert it.state is State.CLOSED


def test_a_stranger_is_refused_at_once():
    it = life()
    it.begin(0.0)
    it.refused("no", 0.1)
    assert (it.state, it.reason) == (State.FAILED, f"no; {CHECK}")


@pytest.mark.parametrize(
    ("refused_s", "between", "ends"),
    [(3.0, "", True), (3.0, "lost", False), (float("inf"), "", False)],
)
def test_who_was_let_in_before_is_refused_for_a_while_until_that_is_believed(
    refused_s: float, between: str, ends: bool
):
    policy = ConnectionPolicy(first_delay_s=1.0, longest_delay_s=8.0, refused_s=refused_s)
    it = up(ConnectionLife(policy, lambda: 1.0))
    it.lost("cut", 10.0)
    for now in (11.0, 13.0):
        it.begin(now)
        it.refused("no", now)
        assert (it.state, it.reason) == (State.LOST, f"no; {REMOVED}")
    if between:
        it.begin(13.5)
        it.lost("nobody there", 13.5)
    it.begin(14.0)
    it.refused("no", 14.0)
    assert it.state is (State.FAILED if ends else State.LOST)


def test_a_step_that_does_not_exist_raises_with_the_history():
    it = up(life(), 1.0)
    it.lost("cut", 2.5)
    with pytest.raises(IllegalTransition, match=r"lost -> up .*lost at 2\.500 \(cut\)"):
        it.granted(3.0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["begin", "accepted", "granted", "lost", "refused", "failed", "close", "expire"]
        ),
        st.floats(0.0, 20.0),
    ),
    max_size=60,
)


def take(it: ConnectionLife, step: str, now: float) -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "lost": ("cut", now),
        "refused": ("no", now),
        "failed": (Refused("no"), now),
        "close": (now + 3.0, now),
    }
    getattr(it, step)(*arguments.get(step, (now,)))


@given(STEPS)
def test_whatever_happens_only_steps_of_the_table_are_taken(steps: list[tuple[str, float]]):
    it, now, was_up = life(), 0.0, False
    for step, passed in steps:
        now += passed
        before, ended = it.state, it.ended
        try:
            take(it, step, now)
        except IllegalTransition:
            assert it.state is before
        path = [State(state) for _, state, _ in it.history]
        assert it.state is (path[-1] if path else State.NEW)
        assert all(to in TABLE[since] for since, to in pairwise(path))
        was_up = was_up or it.state is State.UP
        assert it.resumes == was_up
        assert not ended or it.state is before
        assert (it.error is not None) == (it.state is State.FAILED)
        if it.state is State.LOST and before is not State.LOST:
            assert 0.999 <= it.retry_at - now <= 8.001  # sums of floats


def test_who_never_was_whom_we_were_told_of_is_not_tried_again():
    it = life()
    it.begin(0.0)
    error = Untrusted("another desk")
    it.unreached("mqtts://desk", error, 1.0)
    assert (it.state, it.error) == (State.FAILED, error)


def test_one_that_was_it_before_is_tried_again_meanwhile_another_may_have_its_address():
    it = up(life())
    it.lost("gone", 1.0)
    it.begin(2.0)
    it.unreached("mqtts://desk", Untrusted("another desk"), 3.0)
    assert it.state is State.LOST
    assert it.reason == "cannot reach the broker at mqtts://desk: another desk"
