"""What one event costs does not grow with what else waits: counted in calls, not in seconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.calls import count_calls
from wire.credits import CreditWindow
from wire.ids import ActivationId
from wire.outbox import Message, Numbered, Outbox
from wire.parts import Credit, Part, Transfer, split
from wire.reassembly import Reassembly

FEW, MANY = 1, 1000
MOST_GROWTH = 1.5

Prepare = Callable[[int], Callable[[], object]]


def transfer(item: int) -> Transfer:
    return Transfer(ActivationId("r", item, 1), 0)


def parts_of(item: int, count: int = 4) -> list[Part]:
    return list(split(transfer(item), bytes(10 * count), 10))


# --- what waits to be published ---------------------------------------------------------------


def outbox_of(count: int, online: bool = False) -> tuple[Outbox, list[Numbered]]:
    """With `count` messages of which each would replace an older one on its topic."""
    outbox = Outbox()
    released = outbox.connected(False) if online else []
    for number in range(count):
        released += outbox.put(Message(f"state/{number}", b"x", coalesce=True))
    return outbox, released


def replace_state(count: int) -> Callable[[], object]:
    outbox, _ = outbox_of(count)
    return lambda: outbox.put(Message("state/0", b"new", coalesce=True))


def put_another(count: int) -> Callable[[], object]:
    outbox, _ = outbox_of(count)
    return lambda: outbox.put(Message("new", b"new", coalesce=True))


def acknowledge(count: int) -> Callable[[], object]:
    outbox, released = outbox_of(count + 33, online=True)
    return lambda: outbox.acknowledged(released[0].token)


# --- frames that are put together -------------------------------------------------------------


def reassembly_of(count: int) -> Reassembly:
    reassembly = Reassembly(1 << 30)
    for item in range(count):
        reassembly.add(f"s{item}", parts_of(item)[0], float(item))
    return reassembly


def add_part(count: int) -> Callable[[], object]:
    reassembly = reassembly_of(count)
    return lambda: reassembly.add("s0", parts_of(0)[1], 2000.0)


def expire_one_frame(count: int) -> Callable[[], object]:
    reassembly = reassembly_of(count)
    return lambda: reassembly.expire(60.0)


def wake_for_frames(count: int) -> Callable[[], object]:
    return reassembly_of(count).wake_at


# --- frames that wait for credits -------------------------------------------------------------


def window_of(dependents: int, frames: int = 1) -> CreditWindow:
    window = CreditWindow()
    for number in range(dependents):
        for item in range(frames):
            window.offer(f"d{number}", transfer(item), iter(parts_of(item)), float(number))
    return window


def one_credit(window: CreditWindow) -> Callable[[], object]:
    return lambda: window.credited("d0", Credit(transfer(0), 0, 4), 2000.0)


def credit_among_dependents(count: int) -> Callable[[], object]:
    return one_credit(window_of(count))


def credit_among_frames(count: int) -> Callable[[], object]:
    return one_credit(window_of(1, count))


def forget_one_among_dependents(count: int) -> Callable[[], object]:
    window = window_of(count)
    window.offer("d0", transfer(7), iter(parts_of(7)), 2000.0)
    return lambda: window.forget(transfer(7), 2000.0)


def offer_among_frames(count: int) -> Callable[[], object]:
    window = window_of(1, count)
    return lambda: window.offer("d0", transfer(count), iter(()), 2000.0)


def stall_of_one(count: int) -> Callable[[], object]:
    window = window_of(count)
    return lambda: window.expire(10.0)


def wake_for_credits(count: int) -> Callable[[], object]:
    return window_of(count).wake_at


@pytest.mark.parametrize(
    "prepare",
    [
        replace_state,
        put_another,
        acknowledge,
        add_part,
        expire_one_frame,
        wake_for_frames,
        credit_among_dependents,
        credit_among_frames,
        forget_one_among_dependents,
        offer_among_frames,
        stall_of_one,
        wake_for_credits,
    ],
    ids=lambda prepare: prepare.__name__,
)
def test_one_event_costs_the_same_however_much_waits(prepare: Prepare) -> None:
    few, many = (count_calls(prepare(count)) for count in (FEW, MANY))
    assert few > 0
    assert many <= MOST_GROWTH * few, f"{few} calls with {FEW}, {many} with {MANY}"
