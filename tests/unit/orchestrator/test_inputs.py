"""Inputs that cannot be taken, come twice, are lost, or come too early."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.fake_fleet import CLIENT, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.frame_head import FrameHead, TensorHead
from wire.ids import ActivationId
from wire.messages import requests as req
from wire.messages.requests import RunOptions


def world_of(*names: str, **of: Any) -> World:
    return World(tiny_manifest(weights=[10 * MB] * 3)).begin(*names, **of)


def told(world: World, kind: type[Any]) -> list[Any]:
    return [each for each in world.told if isinstance(each, kind)]


def shapes(world: World, shape: tuple[int, ...]) -> str:
    world.submit(items=1)
    world.feeding.clear()
    world.run_for(0.1)
    world.feed("r1", 0, shape)
    world.complete(items=1)
    (failed,) = told(world, req.ItemFailed)
    assert failed.kind == "invalid_input"
    return str(failed.reason)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((1, 129), "'seq' may be at most 128"),
        ((5, 8), "'batch' may be at most 4"),
        ((8,), "2 dimensions are needed"),
        ((1, 8, 1), "2 dimensions are needed"),
    ],
)
def test_an_input_of_a_wrong_shape_fails_with_what_the_model_takes(
    shape: tuple[int, ...], says: str
) -> None:
    world = world_of("a")
    reason = shapes(world, shape)
    assert says in reason
    assert "takes [batch, seq]" in reason
    assert not world.instructions(ins.StoreInput)
    assert world.instructions(ins.DiscardPending)


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ((), "'x' is missing"),
        ((TensorHead("z", 1, (1, 8)),), "'x' is missing"),
        ((TensorHead("x", 1, (1, 8)), TensorHead("z", 1, (1,))), "no input 'z'"),
        ((TensorHead("x", 1, (1, 8)),) * 2, "twice"),
        ((TensorHead("x", 7, (1, 8)),), "INT64; the model takes FLOAT"),
    ],
)
def test_an_input_with_wrong_names_or_types_fails(
    tensors: tuple[TensorHead, ...], says: str
) -> None:
    world = world_of("a")
    world.submit(items=1)
    world.feeding.clear()
    world.run_for(0.1)
    at = ActivationId("r1", 0, 0)
    head = FrameHead(
        world.manifest.digest,
        at,
        0,
        exact=False,
        barrier=False,
        nbytes=100,
        raw_nbytes=32,
        tensors=tensors,
    )
    world.tell(ev.InputArrived(CLIENT, head))
    world.complete(items=1)
    assert says in told(world, req.ItemFailed)[0].reason


def test_an_input_that_fails_gives_its_credit_back() -> None:
    world = world_of("a")
    shapes(world, (9, 9))
    assert told(world, req.InputsStored)[-1].ranges == ((0, 0),)


def test_an_input_of_another_party_or_beyond_the_count_is_not_taken() -> None:
    world = world_of("a")
    world.submit(items=1)
    world.complete(items=1)
    head = world.head(ActivationId("r1", 5, 0))
    world.submit("r2", items=0)
    world.ask(req.Submit("r3", "tiny", count=2))
    world.run_for(0.1)
    for party, run, item in (("clients/bob/s", "r3", 0), (CLIENT, "r3", 2), (CLIENT, "r3", -1)):
        at = ActivationId(run, item, 0)
        world.tell(
            ev.InputArrived(
                party,
                FrameHead(
                    head.model,
                    at,
                    0,
                    exact=False,
                    barrier=False,
                    nbytes=9,
                    raw_nbytes=9,
                    tensors=(),
                ),
            )
        )
    world.run_for(0.5)
    assert len(world.instructions(ins.StoreInput)) == 1
    assert len(world.instructions(ins.DiscardPending)) == 3


def test_an_input_for_a_run_nobody_knows_is_answered() -> None:
    world = world_of("a")
    world.feed("never", 0)
    world.run_for(0.1)
    assert told(world, req.Rejected)[0].run == "never"


def test_an_input_that_comes_twice_is_one_item() -> None:
    world = world_of("a")
    world.submit(items=2)
    world.run_for(0.02)
    world.feed("r1", 0)
    world.complete(items=2)
    assert world.outcomes["r1", 0] == ["result"]
    assert len(world.instructions(ins.StoreInput)) == 2


def test_an_input_lost_for_being_too_large_fails_its_item() -> None:
    world = world_of("a")
    world.submit(items=1)
    world.feeding.clear()
    world.run_for(0.1)
    at = ActivationId("r1", 0, 0)
    world.tell(ev.FrameLost(CLIENT, at, "too_large", "9 GB announced; 8 kB may come"))
    world.complete(items=1)
    assert "9 GB" in told(world, req.ItemFailed)[0].reason


def restarted(world: World) -> OrchestratorMachine:
    """An orchestrator that began anew with an unfinished run, and has not read the store yet."""
    machine = OrchestratorMachine(world.options)
    digest = world.manifest.digest
    run = ev.StoredRun("r1", CLIENT, "tiny", digest, RunOptions(), None, (), (), 1.0)
    machine.handle(ev.Started("o2", 2, (run,), "http://:1"), world.now)
    machine.handle(ev.Connected("oc2"), world.now)
    return machine


def test_an_input_that_comes_before_its_model_is_known_after_a_restart_is_asked_for_again() -> None:
    world = world_of("a")
    machine = restarted(world)
    at = ActivationId("r1", 0, 0)
    out = machine.handle(ev.InputArrived(CLIENT, world.head(at)), world.now)
    assert ins.DiscardPending(at) in out
    assert not [each for each in out if isinstance(each, ins.StoreOutcome)]
    out = machine.handle(ev.Ticked(), world.now + 1.0)
    (said,) = [each.response for each in out if isinstance(each, ins.Respond)]
    assert isinstance(said, req.InputsStored)
    assert said.ranges == ()
    machine.handle(ev.ModelAdded(world.manifest), world.now + 1.0)
    out = machine.handle(ev.InputArrived(CLIENT, world.head(at)), world.now + 1.0)
    assert ins.StoreInput(at) in out


def test_an_input_whose_model_did_not_come_back_ends_with_that() -> None:
    world = world_of("a")
    machine = restarted(world)
    at = ActivationId("r1", 0, 0)
    out = machine.handle(ev.InputArrived(CLIENT, world.head(at)), world.now + 60.0)
    (ended,) = [each.outcome for each in out if isinstance(each, ins.StoreOutcome)]
    assert "was removed or replaced" in ended.reason


def test_a_run_takes_no_item_beyond_what_a_run_may_have() -> None:
    most = 2
    world = World(tiny_manifest(), OrchestratorOptions(run_items=most)).begin("a")
    world.ask(req.Submit("r1", "tiny"))
    world.run_for(0.1)
    world.feed("r1", most)
    world.tell(ev.FrameLost(CLIENT, ActivationId("r1", 1 << 40, 0), "malformed", "not a frame"))
    world.finish("r1", most + 1)
    world.run_for(0.5)
    (failed,) = told(world, req.ItemFailed)
    assert (failed.item, failed.kind) == (most, "invalid_input")
    assert f"a run may have {most} items" in failed.reason
    assert not world.instructions(ins.StoreOutcome)
    assert not world.instructions(ins.StoreCount)
    world.ask(req.Submit("r2", "tiny", count=most + 1))
    world.run_for(0.1)
    assert told(world, req.Rejected)[-1].kind == "invalid_input"


@pytest.mark.parametrize(
    "asked",
    [
        req.Submit("r", "tiny", RunOptions(lifetime_s=1e300)),
        req.Submit("r", "tiny", RunOptions(partitions=1 << 50)),
        req.Submit("r", "tiny", RunOptions(policy="x" * 60)),
        req.Submit("r", "tiny", count=1 << 52),
        req.RequestPlan("r", "tiny", items=1 << 52),
        req.RequestPlan("r", "tiny", items=-1),
        req.RequestPlan("r", "tiny", RunOptions(partitions=1 << 50)),
    ],
    ids=str,
)
def test_a_number_beyond_what_may_be_is_refused_with_what_may(asked: req.Request) -> None:
    world = world_of("a")
    world.ask(asked)
    world.run_for(0.1)
    (refused,) = [*told(world, req.Rejected), *told(world, req.RequestFailed)]
    assert refused.kind == "invalid_input"


@pytest.mark.parametrize("attached", [-5, 1 << 52])
def test_however_many_inputs_are_announced_few_are_waited_for(attached: int) -> None:
    world = world_of("a")
    world.ask(req.Submit("r", "tiny", attached=attached))
    world.run_for(0.01)
    assert len(world.machine.state.runs["r"].awaited) <= req.ATTACHED_COUNT
    world.run_for(1.0)
    assert world.machine.state.runs["r"].open
