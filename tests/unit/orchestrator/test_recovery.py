"""Whatever is lost comes back: devices, frames, orchestrators; and every wait has a limit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from tests.support.fake_fleet import FakeAgent
from tests.support.three_phones import IN_THREE, results, serving, three
from wire.ids import ActivationId
from wire.messages import events as dev
from wire.messages.requests import RunOptions


@pytest.mark.parametrize("first", [0, 2, 4])
@pytest.mark.parametrize("after", ["FrameReceived", "TaskStarted", "TaskDone"])
@pytest.mark.parametrize("spare", [True, False])
def test_a_device_that_dies_is_replaced_and_no_item_is_lost(
    first: int, after: str, spare: bool
) -> None:
    world = three(4 if spare else 3)
    world.submit(items=5, options=IN_THREE)
    world.run_for(
        20.0,
        lambda: any(
            f"first={first}" in text or f"cut={first}" in text
            for _, _, text in world.happened(after)
        ),
    )
    serving(world, first).die()
    world.complete(items=5)
    assert results(world, 5)


def test_items_go_on_from_the_deepest_device_that_still_holds_their_output() -> None:
    world = three(4, compute_s=0.2)
    world.submit(items=1, options=IN_THREE)
    world.run_for(
        20.0, lambda: any("first=4" in text for _, _, text in world.happened("TaskStarted"))
    )
    serving(world, 4).die()
    world.complete(items=1)
    assert len(world.instructions(ins.SendInput)) == 1
    assert len([1 for _, _, text in world.happened("TaskDone") if "first=0" in text]) == 1
    assert results(world, 1)


def test_what_was_sent_to_a_device_that_died_is_sent_again_though_the_news_come_late() -> None:
    """It says so after it has obeyed the next assignment, which lists another dependent."""
    world = three(4, compute_s=0.2)
    world.submit(items=1, options=IN_THREE)
    world.run_for(
        20.0, lambda: any("first=0" in text for _, _, text in world.happened("TaskStarted"))
    )
    sender, dead = serving(world, 0), serving(world, 2)
    flush = sender.flush_events
    sender.flush_events = lambda: world.later(1.0, flush)  # type: ignore[method-assign] # a slow way
    world.run_for(5.0, lambda: bool(dead.inputs))
    dead.die()
    begun = world.now
    world.complete(items=1)
    assert results(world, 1)
    assert world.now - begun < 5.0


def test_without_any_holder_the_input_is_sent_again_under_a_higher_attempt() -> None:
    world = three(5, compute_s=0.2)
    world.submit(items=1, options=IN_THREE)
    world.run_for(
        20.0, lambda: any("first=2" in text for _, _, text in world.happened("TaskStarted"))
    )
    serving(world, 0).die()
    serving(world, 2).die()
    world.complete(items=1)
    first = world.machine.state.first_attempt
    assert [each.attempt for each in world.instructions(ins.SendInput)] == [first, first + 1]
    assert results(world, 1)


def test_a_computed_input_is_sent_again_at_once_when_all_that_came_of_it_is_lost() -> None:
    """Its device lives and has let its output go, as it should: nothing is under way to it."""
    world = three(5, compute_s=0.2)
    world.submit(items=1, options=IN_THREE)
    world.run_for(
        20.0, lambda: any("first=4" in text for _, _, text in world.happened("TaskStarted"))
    )
    world.run_for(0.1)  # until the first output's release has come
    serving(world, 2).die()
    serving(world, 4).die()
    began = world.now
    world.complete(items=1)
    assert world.now - began < world.machine.state.options.stall_s / 2
    assert results(world, 1)


@pytest.mark.parametrize("cut", [0, 2, 4, 6])
def test_frames_that_died_with_the_broker_are_sent_again_once_devices_are_back(cut: int) -> None:
    """Nobody needs to wait for a stall: who connects again says what came and what did not."""
    world = three(compute_s=0.2)
    lost: list[ActivationId] = []

    def lose(sender: str, activation: ActivationId, to: str) -> bool:
        if activation.cut == cut and not lost:
            lost.append(activation)
            return True
        return False

    world.lose_frame = lose
    world.submit(items=3, options=IN_THREE)
    world.run_for(20.0, lambda: bool(lost))
    world.tell(ev.Disconnected("the broker died"))
    world.run_for(0.5)
    world.tell(ev.Connected("oc-again"))
    for agent in world.agents.values():
        agent.connect()
    began = world.now
    world.complete(items=3)
    assert world.now - began < world.machine.state.options.stall_s / 2
    assert results(world, 3)


def test_the_work_of_a_device_that_answers_nothing_goes_to_others_within_seconds() -> None:
    world = three(4, compute_s=0.2)
    world.submit(items=2, options=IN_THREE)
    world.run_for(20.0, lambda: bool(world.happened("TaskStarted")))
    silent = serving(world, 2)
    silent.mute, silent.online = True, False
    began = world.now
    world.complete(items=2, limit_s=80.0)
    assert world.now - began < 6.0
    assert results(world, 2)
    life = world.machine.state.devices.get(silent.name).life  # type: ignore[union-attr] # it is known
    assert life.state == "unproven"
    world.run_for(40.0)
    assert life.state == "lost"


def test_a_restarted_agent_is_known_to_hold_nothing_but_its_cache() -> None:
    world = three(3, compute_s=0.2)
    world.submit(items=3)
    world.run_for(
        20.0, lambda: any("first=2" in text for _, _, text in world.happened("TaskStarted"))
    )
    serving(world, 2).start()
    world.complete(items=3)
    assert results(world, 3)


@pytest.mark.parametrize("cut", [0, 2, 4, 6])
def test_a_frame_that_is_lost_on_the_way_is_sent_again(cut: int) -> None:
    world = three()
    lost: list[ActivationId] = []

    def lose(sender: str, activation: ActivationId, to: str) -> bool:
        if activation.cut == cut and len(lost) < 2:
            lost.append(activation)
            return True
        return False

    world.lose_frame = lose
    world.submit(items=3)
    world.complete(items=3, limit_s=120.0)
    assert len(lost) == 2
    assert results(world, 3)


def test_a_dropped_frame_is_sent_again_at_once_and_later_each_time() -> None:
    world = three()
    drops: list[float] = []

    def drop(activation: ActivationId) -> bool:
        if activation.cut == 2 and len(drops) < 4:
            drops.append(world.now)
            return True
        return False

    for agent in world.agents.values():
        agent.drop_frame = drop
    world.submit(items=1)
    world.complete(items=1)
    gaps = [b - a for a, b in itertools.pairwise(drops)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 2 * gaps[0]
    assert results(world, 1)


def test_a_frame_that_is_dropped_for_ever_fails_its_item_with_the_reason() -> None:
    world = three()
    for agent in world.agents.values():
        agent.drop_frame = lambda activation: activation.cut == 2
    world.submit(items=1)
    world.complete(items=1, limit_s=120.0)
    assert world.outcomes["r1", 0] == ["timed_out"]
    assert "no room here" in world.told[-1].reason  # type: ignore[union-attr] # an ItemFailed


def test_an_item_that_nothing_moves_fails_and_says_what_it_waited_for() -> None:
    world = three()
    world.lose_frame = lambda sender, activation, to: activation.cut == 4
    world.submit(items=1)
    world.complete(items=1, limit_s=700.0)
    assert world.outcomes["r1", 0] == ["timed_out"]
    assert "segments 4 to 5" in world.told[-1].reason  # type: ignore[union-attr] # an ItemFailed


def test_a_phone_that_reconnects_within_the_limit_is_waited_for() -> None:
    world = three(1)
    world.submit(items=2)
    world.run_for(5.0, lambda: bool(world.happened("TaskStarted")))
    world.agents["a"].die()
    world.run_for(15.0)
    assert not world.outcomes
    world.agents["a"].start()
    world.complete(items=2)
    assert results(world, 2)


def test_a_draining_device_hands_its_work_over() -> None:
    world = three(4)
    world.submit(items=4, options=IN_THREE)
    world.run_for(
        20.0, lambda: any("first=2" in text for _, _, text in world.happened("TaskStarted"))
    )
    leaving = serving(world, 2)
    leaving.say_state("draining")
    world.complete(items=4)
    assert results(world, 4)
    assert not world.retained[leaving.name].partitions


def test_an_orchestrator_that_starts_anew_finishes_what_was_stored() -> None:
    world = three(compute_s=0.1)
    world.submit(items=16)
    world.run_for(20.0, lambda: len(world.outcomes) >= 2)
    fetched = len(world.happened("FetchStarted"))
    world.start_orchestrator()
    for agent in world.agents.values():
        agent.report()
    world.complete(items=16)
    assert results(world, 16)
    assert len(world.happened("FetchStarted")) == fetched  # affinity: everything was resident
    assert all(each.generation == 2 for each in world.retained.values())


def test_an_inventory_of_an_unknown_run_is_answered_with_cancel() -> None:
    world = three()
    agent = world.agents["a"]
    agent.outputs[ActivationId("gone", 0, 2)] = 0
    agent.report()
    world.run_for(1.0)
    assert not agent.outputs


def test_an_output_that_a_device_holds_is_not_taken_for_the_input_that_it_lost() -> None:
    world = three()
    for name, agent in world.agents.items():
        agent.compute_s = 0.1 if name == "a" else 5.0
    world.submit(items=2, options=IN_THREE)
    second = world.agents["b"]
    world.run_for(5.0, lambda: len(second.inputs) == 2)
    at = max(second.inputs)
    assert second.running is not None
    assert second.running.needs != at  # it waits
    second.outputs[at] = second.inputs.pop(at)[1]  # as if made there, under an earlier plan
    del world.agents["a"].outputs[at]
    world.agents["a"].report()
    second.report()
    world.run_for(1.0)
    assert at in second.inputs


def test_outputs_of_items_that_are_not_let_in_give_way_on_a_device_without_room() -> None:
    world = three(compute_s=0.5)
    world.submit(items=12, options=IN_THREE)
    world.run_for(1.0)
    agent, stranded = world.agents["a"], ActivationId("r1", 7, 1)
    assert world.machine.state.runs["r1"].items[7].state == "stored"
    agent.outputs[stranded] = 0  # left from an orchestrator before this one
    agent.report()
    world.run_for(0.2)
    assert stranded in agent.outputs
    agent.say(dev.FrameDropped(ActivationId("r1", 3, 0), "too_large", "no room"))
    world.run_for(0.2)
    assert stranded not in agent.outputs
    world.complete(items=12)
    assert results(world, 12)


def test_a_device_that_makes_what_leads_nowhere_is_not_asked_without_end() -> None:
    world = three()
    agent = world.agents["a"]
    say = agent.say

    def astray(event: dev.DeviceEvent) -> None:
        if isinstance(event, dev.TaskDone):
            event = replace(event, task=replace(event.task, last=4))
        say(event)

    agent.say = astray  # type: ignore[method-assign] # as one that obeys another assignment
    world.lose_frame = lambda sender, activation, to: sender == "a"
    world.submit(items=1, options=IN_THREE)
    world.complete(items=1, limit_s=900.0)
    assert world.outcomes["r1", 0] == ["timed_out"]
    assert len(world.instructions(ins.SendInput)) < 12


def test_late_events_of_an_item_that_is_over_make_its_device_forget_it() -> None:
    world = three()
    world.submit(items=2)
    world.complete(items=2)
    agent = world.agents["a"]
    agent.outputs[ActivationId("r1", 0, 2)] = 0
    agent.report()
    world.run_for(1.0)
    assert not agent.outputs


def test_a_device_that_joins_is_used_by_the_next_run_if_that_is_much_better() -> None:
    world = three(1)
    world.submit("r1", items=1)
    world.complete("r1", items=1)
    world.agents["b"] = FakeAgent(world, "b")
    world.agents["b"].start()
    world.run_for(1.0)
    world.submit("r2", items=20)
    world.complete("r2", items=20)
    assert {name for _, name, _ in world.happened("TaskDone")} == {"a", "b"}


def test_a_device_that_goes_between_runs_changes_the_next_plan_only() -> None:
    world = three(3)
    world.submit("r1", items=1)
    world.complete("r1", items=1)
    world.agents["b"].die()
    world.run_for(1.0)
    world.submit("r2", items=2)
    world.complete("r2", items=2)
    assert results(world, 2, "r2")


@pytest.mark.parametrize("barrier", [False, True])
def test_barrier_runs_survive_a_device_too(barrier: bool) -> None:
    world = three(3)
    world.submit(items=4, options=RunOptions(barrier=barrier))
    world.run_for(
        20.0, lambda: any("first=2" in text for _, _, text in world.happened("TaskStarted"))
    )
    serving(world, 2).die()
    world.complete(items=4)
    assert results(world, 4)


def test_how_fast_a_device_is_is_learned_from_its_tasks() -> None:
    world = three(compute_s=0.5)
    world.submit(items=2)
    world.complete(items=2)
    (plan,) = world.machine.state.plans.values()
    part = plan.placements[0]
    assert part.device is not None
    seconds = world.machine.state.estimates.compute_s(
        part.device, None, part.partition, part.segments
    )
    assert seconds == pytest.approx(1.0)


@pytest.mark.parametrize("barrier", [False, True])
def test_items_that_the_remaining_devices_have_no_room_for_are_sent_home_and_come_again(
    barrier: bool,
) -> None:
    world = three(3, hold=50_000, compute_s=0.1)
    world.submit(items=6, options=RunOptions(barrier=barrier, partitions=3))
    world.run_for(20.0, lambda: any("first=2" in text for _, _, text in world.happened("TaskDone")))
    for name in ("b", "c"):
        world.agents[name].die()
    world.run_for(0.2)
    (plan,) = world.machine.state.plans.values()
    assert len(plan.in_flight) * plan.hops()["a"] <= 50_000
    assert world.machine.state.counts["sent_home"] > 0
    world.complete(items=6)
    assert results(world, 6)
