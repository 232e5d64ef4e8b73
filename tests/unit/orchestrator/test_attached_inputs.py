"""Inputs that come along with `submit`: one record, one answer, and nothing left of a refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.runs.attached_inputs import GATHER_S
from orchestrator.machine.runs.models import GRACE_S
from tests.support.fake_fleet import CLIENT, World
from tests.support.planner_beside import handled
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.ids import ActivationId
from wire.messages import requests as req
from wire.messages.requests import ATTACHED_COUNT, ATTACHED_NBYTES, RunOptions

STRANGER = "clients/eve/s9"


@pytest.fixture
def world() -> World:
    return World(tiny_manifest(weights=[10 * MB] * 3)).begin("a")


class Desk:
    """The machine alone: what it says to one event after the other."""

    def __init__(self, world: World) -> None:
        self.world, self.state = world, world.machine.state

    def hear(self, event: ev.Event, after_s: float = 0.0) -> list[ins.Instruction]:
        self.world.now += after_s
        return handled(self.world.machine, event, self.world.now)

    def submit(self, attached: int, count: int | None = 3, **more: Any) -> list[ins.Instruction]:
        asked = req.Submit("r1", more.pop("model", "tiny"), RunOptions(**more), count, attached)
        return self.hear(ev.RequestArrived(CLIENT, asked))

    def ask(self, request: req.Request) -> list[ins.Instruction]:
        return self.hear(ev.RequestArrived(CLIENT, request))

    def input(self, item: int, party: str = CLIENT, **other: Any) -> list[ins.Instruction]:
        head = self.world.head(at(item), other.pop("shape", (1, 8)))
        return self.hear(ev.InputArrived(party, replace(head, **other)))

    def wait(self, seconds: float) -> list[ins.Instruction]:
        return self.hear(ev.Ticked(), seconds)

    def is_empty(self) -> bool:
        return not (self.state.runs or self.state.gathering)


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world)


def at(item: int) -> ActivationId:
    return ActivationId("r1", item, 0)


def of(said: list[ins.Instruction], kind: type[Any]) -> list[Any]:
    return [each for each in said if isinstance(each, kind)]


def answers(said: list[ins.Instruction], kind: type[Any]) -> list[Any]:
    return [each.response for each in of(said, ins.Respond) if isinstance(each.response, kind)]


def recorded(said: list[ins.Instruction]) -> tuple[int, ...] | None:
    """The inputs in the run's record; None if nothing goes to disk."""
    records = of(said, ins.StoreRun)
    assert len(records) <= 1
    assert not of(said, ins.StoreInput)
    return records[0].inputs if records else None


def test_a_run_and_the_inputs_that_come_along_are_one_record_and_answered_once(desk: Desk) -> None:
    assert recorded(desk.submit(attached=2)) is None
    assert of(desk.input(0), ins.HoldInput) == [ins.HoldInput(at(0))]
    said = desk.input(1)
    assert recorded(said) == (0, 1)
    assert not answers(said, req.Accepted)
    said = desk.hear(ev.RunStored("r1", (0, 1)))
    (accepted,) = answers(said, req.Accepted)
    assert accepted.stored == ((0, 1),)
    assert not answers(said + desk.wait(5.0), req.InputsStored)


def test_they_may_come_in_any_order(desk: Desk) -> None:
    desk.submit(attached=3)
    assert recorded(desk.input(2)) is None
    assert recorded(desk.input(0)) is None
    assert recorded(desk.input(1)) == (0, 1, 2)


def test_what_comes_along_is_computed_and_comes_back_once(world: World) -> None:
    world.submit(items=3, attached=2)
    world.complete(items=3)
    assert [world.outcomes["r1", item] for item in range(3)] == [["result"]] * 3
    assert [each.activation.item for each in world.instructions(ins.StoreInput)] == [2]
    world.ask(req.AcknowledgeResults("r1", (0, 1, 2)))
    world.run_for(1.0)
    assert not world.inputs["r1"]
    assert not world.machine.state.runs


def test_a_run_does_not_wait_longer_than_a_moment_for_what_was_announced(desk: Desk) -> None:
    desk.submit(attached=2)
    desk.input(0)
    assert desk.world.machine.wake_at() == pytest.approx(desk.world.now + GATHER_S)
    assert recorded(desk.wait(GATHER_S / 2)) is None
    assert recorded(desk.wait(GATHER_S)) == (0,)
    late = desk.input(1)
    assert late[0] == ins.DiscardPending(at(1))
    (accepted,) = answers(desk.hear(ev.RunStored("r1", (0,))), req.Accepted)
    assert accepted.stored == ((0, 0),)
    assert of(desk.input(1), ins.StoreInput) == [ins.StoreInput(at(1))]


def test_a_client_that_announces_nothing_is_answered_as_ever(desk: Desk) -> None:
    assert recorded(desk.submit(attached=0)) == ()
    (accepted,) = answers(desk.hear(ev.RunStored("r1")), req.Accepted)
    assert accepted == req.Accepted("r1", desk.world.manifest.digest, accepted.credit)
    assert of(desk.input(0), ins.StoreInput)


@pytest.mark.parametrize(("attached", "count", "awaited"), [(99, None, ATTACHED_COUNT), (4, 2, 2)])
def test_no_more_is_awaited_than_may_come(
    desk: Desk, attached: int, count: int | None, awaited: int
) -> None:
    desk.submit(attached, count)
    beyond = desk.input(awaited)
    assert beyond[0] == ins.DiscardPending(at(awaited))
    said = [recorded(desk.input(item)) for item in range(awaited)]
    assert said == [None] * (awaited - 1) + [tuple(range(awaited))]


@pytest.mark.parametrize("attached", [-1, 3])
def test_a_count_that_makes_no_sense_keeps_no_run_waiting(desk: Desk, attached: int) -> None:
    assert recorded(desk.submit(attached, count=0)) == ()


def test_inputs_beyond_the_bound_in_bytes_are_not_taken_along(desk: Desk) -> None:
    desk.submit(attached=2)
    desk.input(0, nbytes=ATTACHED_NBYTES - 50)
    said = desk.input(1, nbytes=100)
    assert said[0] == ins.DiscardPending(at(1))
    assert recorded(said) == (0,)


def test_a_faulty_input_is_judged_once_its_run_is_accepted(desk: Desk) -> None:
    desk.submit(attached=1)
    said = desk.input(0, shape=(1, 129))
    assert said[0] == ins.DiscardPending(at(0))
    assert recorded(said) == ()
    assert not of(said, ins.StoreOutcome)
    desk.hear(ev.RunStored("r1"))
    (ended,) = of(desk.input(0, shape=(1, 129)), ins.StoreOutcome)
    assert "'seq' may be at most 128" in ended.outcome.reason


def test_repeats_change_nothing(desk: Desk) -> None:
    desk.submit(attached=2)
    desk.input(0)
    assert desk.submit(attached=2) == []
    assert desk.input(0) == [ins.DiscardPending(at(0))]
    assert recorded(desk.input(1)) == (0, 1)
    assert desk.submit(attached=2) == []
    assert desk.input(1) == [ins.DiscardPending(at(1))]
    assert answers(desk.hear(ev.RunStored("r1", (0, 1))), req.Accepted)
    assert desk.input(0)[0] == ins.DiscardPending(at(0))
    (again,) = answers(desk.submit(attached=2), req.Accepted)
    assert again.stored == ((0, 1),)


def test_a_strangers_frame_under_the_same_name_takes_nobodys_place(desk: Desk) -> None:
    desk.submit(attached=1)
    said = desk.input(0, party=STRANGER)
    assert said[0] == ins.DiscardPending(at(0))
    assert not of(said, ins.HoldInput)
    assert recorded(desk.input(0)) == (0,)


def test_a_frame_of_another_cut_is_no_input(desk: Desk) -> None:
    desk.submit(attached=1)
    head = desk.world.head(ActivationId("r1", 0, 1))
    said = desk.hear(ev.InputArrived(CLIENT, head))
    assert said == [ins.DiscardPending(head.activation)]


def test_an_input_that_overtakes_its_submit_leaves_nothing_and_is_only_doubted(desk: Desk) -> None:
    said = desk.input(0)
    (rejected,) = answers(said, req.Rejected)
    assert rejected.doubtful
    assert said[0] == ins.DiscardPending(at(0))
    assert desk.is_empty()
    desk.submit(attached=1)
    assert recorded(desk.wait(GATHER_S)) == ()


def test_of_a_run_that_is_over_an_input_is_told_for_sure(desk: Desk) -> None:
    desk.submit(attached=0)
    desk.ask(req.CancelRun("r1"))
    (rejected,) = answers(desk.input(0), req.Rejected)
    assert (rejected.kind, rejected.doubtful) == ("cancelled", False)


def test_of_a_run_that_was_refused_nothing_is_kept(desk: Desk) -> None:
    said = desk.submit(attached=2, model="nope")
    (rejected,) = answers(said, req.Rejected)
    assert (rejected.kind, rejected.doubtful) == ("unknown_model", False)
    said += desk.input(0) + desk.input(1)
    assert of(said, ins.DiscardPending) == [ins.DiscardPending(at(0)), ins.DiscardPending(at(1))]
    assert not of(said, ins.HoldInput)
    assert recorded(said) is None
    assert desk.is_empty()


def test_of_a_run_that_the_disk_refused_nothing_is_kept(desk: Desk) -> None:
    desk.submit(attached=2)
    desk.input(0)
    desk.input(1)
    said = desk.hear(ev.JournalFailed("run", "r1", None, "disk_full", "no room"))
    assert answers(said, req.Rejected) == [req.Rejected("r1", "disk_full", "no room")]
    assert desk.is_empty()
    assert desk.input(0)[0] == ins.DiscardPending(at(0))
    assert desk.is_empty()


def test_a_run_that_is_cancelled_while_it_gathers_never_was(desk: Desk) -> None:
    desk.submit(attached=2)
    desk.input(0)
    said = desk.ask(req.CancelRun("r1"))
    assert said == [ins.DropHeld(at(0))]
    assert desk.is_empty()
    assert answers(desk.input(1), req.Rejected)[0].kind == "cancelled"
    assert answers(desk.submit(attached=2), req.Rejected)[0].kind == "cancelled"
    assert desk.is_empty()


def test_a_run_that_is_cancelled_on_its_way_to_disk_takes_its_inputs_with_it(desk: Desk) -> None:
    desk.submit(attached=1)
    desk.input(0)
    said = desk.ask(req.CancelRun("r1"))
    kinds = [type(each) for each in said if isinstance(each, ins.StoreEnding | ins.ForgetRun)]
    assert kinds == [ins.StoreEnding, ins.ForgetRun]
    assert not of(said, ins.StoreOutcome)
    assert not of(desk.hear(ev.RunStored("r1", (0,))), ins.Respond)
    assert desk.is_empty()


def test_a_model_that_goes_while_a_run_gathers_ends_the_run_once_it_is_there(desk: Desk) -> None:
    desk.submit(attached=2)
    desk.input(0)
    desk.hear(ev.ModelRemoved("tiny"))
    assert recorded(desk.input(1)) == (0,)
    assert answers(desk.hear(ev.RunStored("r1", (0,))), req.Accepted)
    said = desk.wait(GRACE_S)
    assert [each.kind for each in answers(said, req.Rejected)] == ["unknown_model"]
    (ended,) = of(said, ins.StoreOutcome)
    assert (ended.outcome.item, ended.outcome.kind) == (0, "unknown_model")


def test_an_input_that_did_not_reach_the_disk_is_not_told_as_stored(desk: Desk) -> None:
    desk.submit(attached=2)
    desk.input(0)
    desk.input(1)
    (accepted,) = answers(desk.hear(ev.RunStored("r1", (1,))), req.Accepted)
    assert accepted.stored == ((1, 1),)
    assert desk.state.runs["r1"].spooled_nbytes == 4096  # the least that one counts for
    assert of(desk.input(0), ins.StoreInput) == [ins.StoreInput(at(0))]


def test_nothing_is_told_of_a_run_before_it_is_on_disk(desk: Desk) -> None:
    desk.submit(attached=2)
    said = desk.input(0) + desk.ask(req.Resume("r1")) + desk.ask(req.Finish("r1", 1))
    said += desk.ask(req.Renew(("r1",))) + desk.input(1) + desk.ask(req.Resume("r1"))
    assert not of(said, ins.Respond)
    assert not of(said, ins.PublishRun)
    assert not of(said, ins.SendInput)


def test_another_client_cannot_add_to_a_run_that_gathers(desk: Desk) -> None:
    desk.submit(attached=1)
    asked = req.Submit("r1", "tiny", count=1)
    (rejected,) = answers(desk.hear(ev.RequestArrived(STRANGER, asked)), req.Rejected)
    assert "another client" in rejected.reason
    assert desk.hear(ev.RequestArrived(STRANGER, req.CancelRun("r1"))) == []
    assert recorded(desk.input(0)) == (0,)
