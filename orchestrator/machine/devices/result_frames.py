"""Frames that devices send us: results, and those that did not come whole."""

from __future__ import annotations

from orchestrator.machine.devices import lost_frames, replacing, standing
from orchestrator.machine.items import outcomes
from orchestrator.machine.plans import hedging
from orchestrator.machine.records.events import FrameLost, ResultArrived
from orchestrator.machine.records.instructions import DiscardPending
from orchestrator.machine.records.item import Item, result_fault
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import credits
from wire.errors import InvalidInput, Malformed, TooLarge
from wire.ids import ActivationId
from wire.topics import ORCHESTRATOR

CLIENTS = "clients/"


def arrived(state: State, event: ResultArrived) -> None:
    """The first result of an item in flight goes to the journal, if it is from a device with a
    place before the end; any other is discarded."""
    at = event.head.activation
    item = state.item(at.run, at.item)
    run = state.runs.get(at.run)
    if item is None or run is None or at.cut != run.end_cut:
        _discard(state, at, "stray_result")
        return
    if item.state not in ("stored", "admitted", "suspect"):
        _discard(state, at, "repeated_result")
        return
    if not _is_placed(state, item, event.device):
        state.emit(DiscardPending(at))
        return
    manifest = state.manifests.get(run.model)
    fault = result_fault(manifest, event.head) if manifest is not None else "its model is gone"
    if fault is not None:
        _discard(state, at, "faulty_result")
        _blame(state, item, event.device, fault)
        return
    item.make(at.cut, event.device)
    _settle_hedge(state, item, event.device)
    outcomes.succeed(state, item, event.head)


def _settle_hedge(state: State, item: Item, device: str) -> None:
    """The result may come before the word that its task is done, and is the last of its item."""
    plan = state.plan_of(item)
    if plan is not None and plan.placements and item.state == "admitted":
        hedging.task_done(state, plan, item, plan.placements[-1].partition.first, device)


def _is_placed(state: State, item: Item, device: str) -> bool:
    known = state.devices.get(device)
    if known is None:
        state.counts["unplaced_result"] += 1
        return False
    item.touch(device)
    return standing.makes(state, known, item, state.runs[item.run].end_cut, "result")


def _blame(state: State, item: Item, device: str, fault: str) -> None:
    plan = state.plan_of(item)
    if plan is not None and plan.placements and item.state == "admitted":
        item.forget_holder(device, plan.end)
        first = plan.placements[-1].partition.first
        reason = f"{device} sent a faulty result: {fault}"
        replacing.task_failed(state, plan, item, first, device, Malformed.kind, reason)


def _discard(state: State, at: ActivationId, what: str) -> None:
    state.counts[what] += 1
    state.emit(DiscardPending(at))


def frame_lost(state: State, event: FrameLost) -> None:
    """Have a result sent again; end an input's item if the input itself was at fault."""
    at = event.activation
    state.counts["frame_lost"] += 1
    item = state.item(at.run, at.item)
    if event.sender.startswith(CLIENTS):
        _input_lost(state, event, item)
    elif item is not None and item.state == "admitted":
        plan = state.plan_of(item)
        if plan is None or at.cut != plan.end:
            return
        if standing.sends(state, event.sender, item, at.cut):
            _result_lost(state, plan, item, event)
        else:
            state.counts["unplaced_frame_lost"] += 1


def _result_lost(state: State, plan: Plan, item: Item, event: FrameLost) -> None:
    """Its sender still holds it: nothing is forgotten, it is only sent again."""
    holders = dict(item.outputs.get(plan.end, {}))
    lost_frames.lost(
        state,
        plan,
        item,
        plan.end,
        lost_frames.Told(ORCHESTRATOR, event.sender, event.kind, event.reason),
    )
    if item.state == "admitted" and holders:
        item.outputs[plan.end] = holders


def _input_lost(state: State, event: FrameLost, item: Item | None) -> None:
    at = event.activation
    run = state.runs.get(at.run)
    if run is None or run.party != event.sender or not run.open or item is not None:
        return
    if at.item in run.ended or event.kind not in (TooLarge.kind, Malformed.kind):
        # What is not listed there is to be sent again.
        run.say_by(state.now + state.options.coalesce_s, state.now)
        return
    limit = run.count if run.count is not None else state.options.run_items
    if 0 <= at.item < limit:
        fresh = run.arrive(at.item, state.now)
        credits.stored(state, run, at.item)
        outcomes.fail(state, fresh, InvalidInput.kind, f"item {at.item}: {event.reason}")
