"""The queues into the main threads of agent and orchestrator: bounded, and nothing is lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import edge_agent.shell.mailbox
import orchestrator.shell.mailbox
from edge_agent.machine.records.events import FetchProgressed, StopAsked
from edge_agent.shell.mailbox import TAKEN
from edge_agent.shell.mailbox import Mailbox as AgentMailbox
from orchestrator.machine.records.events import ForgetAsked
from wire.errors import TimedOut

SHELLS = {"agent": edge_agent.shell.mailbox, "orchestrator": orchestrator.shell.mailbox}


class WaitingMailbox(AgentMailbox):
    """The agent's, with a thread that waits for its wake and for nothing else."""

    def __init__(self, bound: int = edge_agent.shell.mailbox.BOUND) -> None:
        self.woken = threading.Event()
        super().__init__(self.woken.set, bound)


def mailbox_of(shell: Any, *bound: int) -> Any:
    if shell is edge_agent.shell.mailbox:
        return WaitingMailbox(*bound)
    return shell.Mailbox(*bound)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Any:
    return SHELLS[request.param]


def event(number: int) -> Any:
    return StopAsked(str(number))


def taken(mailbox: Any, limit_s: float = 0.0) -> list[Any]:
    """What waits, or comes within the limit."""
    if isinstance(mailbox, WaitingMailbox):
        mailbox.woken.wait(limit_s)
        mailbox.woken.clear()
        return list(mailbox.take())
    return list(mailbox.take(limit_s))


def test_events_come_out_in_their_order(shell: Any) -> None:
    mailbox = mailbox_of(shell)
    for number in range(5):
        mailbox.put(event(number))
    assert taken(mailbox) == [*map(event, range(5))]


def test_at_the_bound_everyone_who_puts_waits_until_there_is_room(shell: Any) -> None:
    mailbox = mailbox_of(shell, 2)
    putters = [
        threading.Thread(
            target=lambda first=first: [mailbox.put(event(first + n)) for n in range(50)]
        )
        for first in (0, 100, 200)
    ]
    for putter in putters:
        putter.start()
    got: list[Any] = []
    while len(got) < 150:
        got += taken(mailbox, 5.0)
    for putter in putters:
        putter.join(5.0)
    assert sorted(int(each.reason) for each in got) == [
        first + n for first in (0, 100, 200) for n in range(50)
    ]
    assert taken(mailbox) == []


def test_a_main_thread_that_takes_nothing_is_said_to_be_stuck(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "LIMIT_S", 0.01)
    mailbox = mailbox_of(shell, 1)
    mailbox.put(event(0))
    with pytest.raises(TimedOut, match="main thread"):
        mailbox.put(event(1))
    assert taken(mailbox) == [event(0)]


def test_only_the_progress_of_a_fetch_is_dropped_at_the_bound() -> None:
    mailbox = WaitingMailbox(bound=1)
    mailbox.put(StopAsked("first"))
    mailbox.put(FetchProgressed("0" * 64, 1))
    assert taken(mailbox) == [StopAsked("first")]


def test_a_turn_takes_no_more_than_its_share() -> None:
    mailbox = WaitingMailbox()
    for number in range(TAKEN + 1):
        mailbox.put(event(number))
    assert [len(taken(mailbox)) for _ in range(3)] == [TAKEN, 1, 0]


def test_the_journals_answers_never_wait() -> None:
    mailbox = orchestrator.shell.mailbox.Mailbox(bound=1)
    mailbox.put(ForgetAsked("one"))
    mailbox.answer(ForgetAsked("two"))
    mailbox.wake()
    assert [mailbox.get(0.0) for _ in range(3)] == [ForgetAsked("one"), ForgetAsked("two"), None]


def test_what_is_put_quietly_wakes_nobody_and_is_taken_with_the_next() -> None:
    mailbox = WaitingMailbox()
    mailbox.put(event(0), wake=False)
    assert not mailbox.woken.is_set()
    mailbox.wake()
    assert mailbox.woken.is_set()
    assert taken(mailbox) == [event(0)]


def test_the_thread_that_takes_never_waits_for_itself() -> None:
    mailbox = WaitingMailbox(2)
    assert taken(mailbox) == []
    for number in range(5):
        mailbox.put(event(number))
    assert taken(mailbox) == [*map(event, range(5))]
