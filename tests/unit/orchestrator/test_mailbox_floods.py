"""A flood of one kind, or of one client's, leaves room for everything else in the mailbox."""

from __future__ import annotations

import pytest

from orchestrator.machine.records.events import (
    Event,
    ForgetAsked,
    FrameLost,
    InputArrived,
    RequestArrived,
    TelemetrySeen,
)
from orchestrator.shell.busy_answers import BusyAnswers
from orchestrator.shell.mailbox import INPUTS, REQUESTS, TOGETHER, Mailbox
from orchestrator.shell.waiting import WaitingLimits
from wire.errors import PeerError
from wire.frame_head import FrameHead
from wire.ids import ActivationId
from wire.messages.requests import (
    REQUEST_NBYTES,
    Rejected,
    Renew,
    RequestFailed,
    RequestPlan,
    Resume,
    Submit,
)
from wire.messages.telemetry import Telemetry
from wire.record import encode

ANN, BOB = "clients/ann/s1", "clients/bob/s1"
TELEMETRY = TelemetrySeen("phone", Telemetry("c", 0, 0, 0, 0, 0, 0), False)


def asked(mailbox: Mailbox, party: str, count: int) -> int:
    """How many of so many requests were taken."""
    taken = 0
    for index in range(count):
        if mailbox.has_room_for_request(party):
            mailbox.put_request(RequestArrived(party, Submit(f"r{index}", "toy")))
            taken += 1
    return taken


def drained(mailbox: Mailbox) -> list[Event]:
    found = []
    while (event := mailbox.get(0.0)) is not None:
        found.append(event)
    return found


def an_input(party: str, item: int = 0) -> InputArrived:
    head = FrameHead(
        "d" * 64,
        ActivationId("r", item, 0),
        0,
        exact=False,
        barrier=False,
        nbytes=9,
        raw_nbytes=9,
        tensors=(),
    )
    return InputArrived(party, head)


def test_of_ten_thousand_requests_few_wait_and_all_else_is_taken() -> None:
    mailbox = Mailbox()
    assert asked(mailbox, BOB, 10_000) == REQUESTS.of_party
    mailbox.put(TELEMETRY)
    assert asked(mailbox, ANN, 1) == 1
    assert mailbox.put_input(an_input(ANN))
    events = drained(mailbox)
    assert [type(each) for each in events[REQUESTS.of_party :]] == [
        TelemetrySeen,
        RequestArrived,
        InputArrived,
    ]


def test_sessions_of_one_user_share_its_room_and_all_users_share_the_whole() -> None:
    mailbox = Mailbox(requests=WaitingLimits(of_party=2, of_user=3, of_all=5))
    assert asked(mailbox, BOB, 9) == 2
    assert asked(mailbox, "clients/bob/s2", 9) == 1
    assert asked(mailbox, ANN, 9) == 2
    assert asked(mailbox, "clients/cat/s1", 9) == 0
    drained(mailbox)
    assert asked(mailbox, BOB, 9) == 2


def test_what_clients_send_takes_no_room_from_devices() -> None:
    mailbox = Mailbox(bound=1)
    assert asked(mailbox, BOB, 50) == 50
    assert all(mailbox.put_input(an_input(BOB, item)) for item in range(50))
    mailbox.put(ForgetAsked("phone"))
    assert len(drained(mailbox)) == 101


def test_of_a_flood_of_inputs_few_wait() -> None:
    mailbox = Mailbox()
    assert sum(mailbox.put_input(an_input(BOB, item)) for item in range(3000)) == INPUTS.of_party
    assert mailbox.put_input(an_input(ANN))


def test_lost_inputs_count_as_inputs_and_lost_results_do_not() -> None:
    mailbox, at = Mailbox(), ActivationId("r", 0, 0)
    lost = FrameLost(BOB, at, "malformed", "not a frame")
    for _ in range(2):
        assert sum(mailbox.put_input(lost) for _ in range(3000)) == INPUTS.of_party
        mailbox.put(FrameLost("phone", at, "malformed", "not a frame"))
        assert len(drained(mailbox)) == INPUTS.of_party + 1


class Heard:
    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []
        self.refusals = BusyAnswers(lambda party, response: self.told.append((party, response)))


def test_a_flood_is_answered_once_a_second_and_the_rest_is_counted_unread() -> None:
    heard = Heard()
    for index in range(10_000):
        heard.refusals.refuse(BOB, encode(Submit(f"r{index}", "toy")), 10.0 + index / 10_000)
    heard.refusals.refuse(BOB, b"not read", 10.5)
    heard.refusals.refuse(ANN, encode(Resume("mine")), 10.5)
    heard.refusals.refuse(BOB, encode(RequestPlan("q", "toy")), 11.5)
    assert [(party, type(each)) for party, each in heard.told] == [
        (BOB, Rejected),
        (ANN, Rejected),
        (BOB, RequestFailed),
    ]
    assert all(each.kind == "busy" and each.again_s for _, each in heard.told)  # type: ignore[attr-defined] # both have it
    assert heard.refusals.count == 10_003


def test_nobody_is_told_that_a_renewal_was_refused() -> None:
    heard = Heard()
    heard.refusals.refuse(BOB, encode(Renew(("r",))), 10.0)
    assert not heard.told


@pytest.mark.parametrize("payload", [b"", b"{}", b" " * (REQUEST_NBYTES + 1)])
def test_what_is_no_request_is_not_answered(payload: bytes) -> None:
    heard = Heard()
    with pytest.raises(PeerError):
        heard.refusals.refuse(BOB, payload, 10.0)
    assert not heard.told


def test_what_waits_is_taken_together_up_to_a_bound() -> None:
    mailbox = Mailbox()
    for number in range(TOGETHER + 2):
        mailbox.put(ForgetAsked(str(number)))
    assert [len(mailbox.take(0.0)) for _ in range(3)] == [TOGETHER, 2, 0]


def test_what_is_taken_together_makes_room_for_its_party() -> None:
    mailbox = Mailbox(requests=WaitingLimits(of_party=2, of_user=3, of_all=5))
    for _ in range(2):
        mailbox.put_request(RequestArrived("clients/ann/s1", Renew(())))
    assert not mailbox.has_room_for_request("clients/ann/s1")
    mailbox.take(0.0)
    assert mailbox.has_room_for_request("clients/ann/s1")


def test_a_wake_ends_what_is_taken_together() -> None:
    mailbox = Mailbox()
    mailbox.put(ForgetAsked("first"))
    mailbox.wake()
    mailbox.put(ForgetAsked("second"))
    assert mailbox.take(0.0) == [ForgetAsked("first")]
    assert mailbox.take(0.0) == [ForgetAsked("second")]
