"""What is to be sent, by reference: where each frame is on its way, and what stays of it."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bus.parcels import AWAY_MOST_S, AWAY_S, Parcel, Parcels
from tests.support.calls import count_calls
from tests.support.courier_side import KeptFrame, name
from wire.ids import ActivationId
from wire.outbox import Message
from wire.parts import Transfer

READERS = ("b", "c")


def parcel(item: int, to: str = "b", run: str = "run", source: KeptFrame | None = None) -> Parcel:
    return Parcel(to, name(item, run), source or KeptFrame(b""))


def message() -> Message:
    return Message("data", b"", control=False)


def waiting(parcels: Parcels) -> list[int]:
    """Takes all that wait."""
    items = []
    while (each := parcels.next()) is not None:
        items.append(each.activation.item)
    return items


def test_the_oldest_goes_first():
    parcels = Parcels()
    for item in (2, 0, 1):
        parcels.wait(parcel(item))
    assert parcels.waiting == 3
    assert waiting(parcels) == [2, 0, 1]


def test_of_two_sources_of_one_frame_that_waits_the_newer_counts_in_the_place_of_the_older():
    parcels, newer = Parcels(), KeptFrame(b"newer")
    for each in (parcel(0), parcel(1), parcel(0, source=newer)):
        parcels.wait(each)
    first = parcels.next()
    assert first is not None
    assert first.source is newer
    assert waiting(parcels) == [1]


def test_after_a_lost_connection_what_was_not_confirmed_waits_again_in_its_order():
    parcels, messages = Parcels(), [message() for _ in range(3)]
    for item, each in enumerate(messages):
        parcels.sent([parcel(item)], each)
    parcels.wait(parcel(3))
    parcels.confirmed(messages[1])
    assert parcels.wait_again(1 << 20) == []
    assert waiting(parcels) == [0, 2, 3]
    assert parcels.wait_again(1 << 20) == []
    assert waiting(parcels) == []


def test_what_is_in_too_large_parts_waits_again_and_its_transfer_is_over():
    parcels = Parcels()
    for item, nbytes in enumerate((1000, 3000)):
        paced = parcel(item)
        paced.part_nbytes = nbytes
        parcels.paced(paced, Transfer(name(item), 0))
    assert parcels.wait_again(2000) == [Transfer(name(1), 0)]
    assert waiting(parcels) == [1]
    assert parcels.is_paced("b", Transfer(name(0), 0))


def test_what_is_done_is_known_no_more():
    parcels, sent = Parcels(), message()
    parcels.sent([parcel(0)], sent)
    parcels.paced(parcel(0), Transfer(name(0), 0))
    parcels.confirmed(sent)
    parcels.done("b", Transfer(name(0), 0))
    assert parcels.forget(name(0)) == []
    assert parcels._by_run == {}


def test_a_frame_is_forgotten_for_every_reader_wherever_it_is():
    parcels = Parcels()
    parcels.wait(parcel(0, "b"))
    parcels.sent([parcel(0, "c")], message())
    parcels.paced(parcel(0, "d"), Transfer(name(0), 7))
    parcels.wait(parcel(1, "b"))
    assert parcels.forget(name(0)) == [Transfer(name(0), 7)]
    parcels.wait_again(1 << 20)
    assert waiting(parcels) == [1]


def test_what_is_in_one_message_is_confirmed_together_and_comes_again_one_by_one():
    parcels, sent = Parcels(), message()
    parcels.sent([parcel(item) for item in range(3)], sent)
    parcels.forget(name(1))
    parcels.wait_again(1 << 20)
    assert waiting(parcels) == [0, 2]
    parcels.sent([parcel(item) for item in range(3)], sent)
    parcels.forget(name(1))
    parcels.confirmed(sent)
    assert parcels._by_run == {}
    assert parcels._unconfirmed == {}


def test_a_message_whose_frames_are_all_forgotten_is_known_no_more():
    parcels, sent = Parcels(), message()
    parcels.sent([parcel(item) for item in range(2)], sent)
    parcels.forget_run("run")
    assert parcels._unconfirmed == {}
    assert parcels.heard_by_nobody(sent, 0.0) == []


def test_what_nobody_heard_waits_again_each_by_itself():
    parcels, sent = Parcels(), message()
    parcels.sent([parcel(item) for item in range(3)], sent)
    assert [each.unheard for each in parcels.heard_by_nobody(sent, 0.0)] == [1, 1, 1]
    parcels.forget(name(1))
    parcels.come_back(AWAY_S)
    assert waiting(parcels) == [0, 2]


def test_those_that_wait_for_a_reader_are_found_in_their_order_and_taken_once():
    parcels = Parcels()
    for item, to in enumerate("bcbcb"):
        parcels.wait(parcel(item, to))
    assert parcels.next() is not None
    oldest = parcels.oldest_for("b")
    assert oldest is not None
    assert oldest.activation.item == 2
    assert parcels.take(oldest)
    assert not parcels.take(oldest)
    assert parcels.oldest_for("d") is None
    assert waiting(parcels) == [1, 3, 4]


def test_what_goes_along_costs_the_same_whatever_waits_for_others():
    def cost(others: int) -> int:
        parcels = Parcels()
        for item in range(others):
            parcels.wait(parcel(item, f"r{item % 50}"))
        parcels.wait(parcel(0, "b"))

        def go_along() -> None:
            oldest = parcels.oldest_for("b")
            assert oldest is not None
            assert parcels.take(oldest)

        return count_calls(go_along)

    assert cost(1000) == cost(1)


ITEMS, TO = st.integers(0, 3), st.sampled_from(READERS)


def at(item: int) -> ActivationId:
    return name(item, "r" if item % 2 else "q")


def test_of_a_frame_in_two_messages_that_nobody_heard_one_goes_again():
    parcels, messages = Parcels(), [message(), message()]
    for each in messages:
        parcels.sent([parcel(0)], each)
    assert len(parcels.heard_by_nobody(messages[0], 0.0)) == 1
    assert parcels.heard_by_nobody(messages[1], 0.0) == []
    parcels.come_back(AWAY_MOST_S)
    assert waiting(parcels) == [0]
    parcels.sent([parcel(0)], messages[0])
    parcels.wait(parcel(0))
    assert parcels.heard_by_nobody(messages[0], 0.0) == []
    assert parcels.forget(name(0)) == []
    assert waiting(parcels) == []


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens, the index knows exactly what there is."""

    def __init__(self) -> None:
        super().__init__()
        self.parcels = Parcels()

    @rule(item=ITEMS, to=TO)
    def wait(self, item: int, to: str) -> None:
        self.parcels.wait(Parcel(to, at(item), KeptFrame(b"")))

    @rule()
    def send_the_next(self) -> None:
        taken = self.parcels.next()
        if taken is not None:
            self.parcels.sent([taken], message())

    @rule()
    def send_the_next_with_its_company(self) -> None:
        together = [each] if (each := self.parcels.next()) is not None else []
        while together and (each := self.parcels.oldest_for(together[0].to)) is not None:
            assert self.parcels.take(each)
            together.append(each)
        if together:
            self.parcels.sent(together, message())

    @rule()
    def nobody_hears_the_oldest(self) -> None:
        sent = self.oldest()
        if sent is not None:
            self.parcels.heard_by_nobody(sent, 0.0)

    @rule()
    def come_back(self) -> None:
        self.parcels.come_back(AWAY_MOST_S)

    @rule()
    def pace_the_next(self) -> None:
        taken = self.parcels.next()
        transfer = Transfer(taken.activation, 0) if taken else None
        if taken and transfer and not self.parcels.is_paced(taken.to, transfer):
            self.parcels.paced(taken, transfer)

    @rule()
    def confirm_the_oldest(self) -> None:
        sent = self.oldest()
        if sent is not None:
            self.parcels.confirmed(sent)

    def oldest(self) -> Message | None:
        return next((each.message for each in self.unconfirmed()), None)

    def unconfirmed(self) -> list[Parcel]:
        messages = self.parcels._unconfirmed.values()
        assert all(messages)  # nothing empty stays
        return [each for parcels in messages for each in parcels]

    @rule(item=ITEMS, to=TO)
    def done(self, item: int, to: str) -> None:
        self.parcels.done(to, Transfer(at(item), 0))

    @rule(item=ITEMS)
    def forget(self, item: int) -> None:
        self.parcels.forget(at(item))
        assert not any(each.activation == at(item) for each in self.known())

    @rule(item=ITEMS)
    def forget_run(self, item: int) -> None:
        self.parcels.forget_run(at(item).run)
        assert at(item).run not in self.parcels._by_run

    @rule()
    def wait_again(self) -> None:
        self.parcels.wait_again(1 << 20)
        assert not self.parcels._unconfirmed

    @invariant()
    def the_index_holds(self) -> None:
        there = [*self.parcels._waiting.values(), *self.unconfirmed()]
        elsewhere = [*self.parcels._paced.values(), *self.parcels._away.values()]
        assert self.known() == {*there, *elsewhere}

    @invariant()
    def those_of_a_reader_wait_in_the_order_of_all(self) -> None:
        by_reader: dict[str, list[Parcel]] = {}
        for each in self.parcels._waiting.values():
            by_reader.setdefault(each.to, []).append(each)
        assert by_reader == {
            to: list(each.values()) for to, each in self.parcels._by_reader.items()
        }

    def known(self) -> set[Parcel]:
        runs = self.parcels._by_run.values()
        assert all(of_run and all(of_run.values()) for of_run in runs)  # nothing empty stays
        return {each for of_run in runs for parcels in of_run.values() for each in parcels}


TestAnyOrder = AnyOrder.TestCase
