"""Results that come late, twice, or are none."""

from __future__ import annotations

from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from tests.support.three_phones import results, three
from wire.frame_head import FrameHead, TensorHead
from wire.ids import ActivationId


def test_a_late_result_is_discarded_and_counted() -> None:
    world = three()
    world.submit(items=1)
    world.complete(items=1)
    world.tell(ev.ResultArrived("c", world.head(ActivationId("r1", 0, 6))))
    world.run_for(0.1)
    assert world.machine.state.counts["stray_result"] == 1
    assert world.instructions(ins.DiscardPending)
    assert world.outcomes["r1", 0] == ["result"]


def test_a_duplicate_result_before_the_journal_answers_is_discarded() -> None:
    world = three()
    world.submit(items=1)
    at = ActivationId("r1", 0, 6)
    world.run_for(20.0, lambda: any("first=4" in text for _, _, text in world.happened("TaskDone")))
    world.tell(ev.ResultArrived("c", world.head(at)))
    world.complete(items=1)
    assert len(world.instructions(ins.StoreOutcome)) == 1
    assert results(world, 1)


def test_a_faulty_result_is_not_taken_for_one() -> None:
    world = three(1)
    world.submit(items=1)
    world.run_for(5.0, lambda: bool(world.happened("TaskStarted")))
    head = world.head(ActivationId("r1", 0, 6))
    wrong = TensorHead("z", 1, (1,))
    faulty = FrameHead(
        head.model,
        head.activation,
        0,
        exact=False,
        barrier=False,
        nbytes=10,
        raw_nbytes=4,
        tensors=(wrong,),
    )
    world.tell(ev.ResultArrived("a", faulty), 0.0)
    world.complete(items=1)
    assert world.outcomes["r1", 0] == ["malformed"]
