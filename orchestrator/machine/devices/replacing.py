"""What happens to placements whose device is gone, drains, or failed them.

Each gets another device at once if items are under way. When none is left that could serve the
range, the model is cut into other ranges for the devices that remain; when that does not help
either, a lost device is waited for, and a failure ends the items with its own kind and reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.machine.items.outcomes import fail
from orchestrator.machine.items.recovery import drop_detour, forget_device, resend_all
from orchestrator.machine.plans import hedging, moves
from orchestrator.machine.plans.assigning import assign, candidates, choose, hand_over, take
from orchestrator.machine.plans.planning import repartition
from orchestrator.machine.plans.starving import give_up
from orchestrator.machine.records.device import Device, Refusal
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.search import Failed
from orchestrator.machine.records.state import State
from orchestrator.planner.ranking import Choice
from wire.errors import OverBudget
from wire.memory import resident_need, streamed_need
from wire.messages.residency import Failure

CACHED_TIER = 2


def device_gone(state: State, name: str, why: str) -> None:
    """Lost, rebooted or forgotten: what it held is out of reach, what it served goes elsewhere."""
    plans = state.plans.on(name)
    hit = _take_all(state, name, why)
    for plan in plans:
        for placement in plan.placements:
            placement.end_standin(name)
    forget_device(state, name)
    became = moves.what_became_of(state, name)
    for plan, placements in hit:
        moves.vacate(state, plan, name, placements, became)
        _replace(state, plan, placements, why)


def device_drains(state: State, name: str) -> None:
    """It takes nothing new, and its work moves where there is another device for it; what it
    holds can still be sent from there."""
    for plan in state.plans.on(name):
        mine = [placement for placement in plan.placements if placement.likely == name]
        movable = [placement for placement in mine if candidates(state, plan, placement)]
        assigned = [placement for placement in movable if placement.device == name]
        for placement in movable:
            take(state, plan, placement, "its device drains")
        moves.vacate(state, plan, name, assigned, f"{name} leaves")
        _replace(state, plan, assigned, f"{name} drains")


def _take_all(state: State, name: str, why: str) -> list[tuple[Plan, list[Placement]]]:
    hit: list[tuple[Plan, list[Placement]]] = []
    for plan in state.plans.on(name):
        mine = [placement for placement in plan.placements if placement.likely == name]
        assigned = [placement for placement in mine if placement.device == name]
        for placement in mine:
            take(state, plan, placement, why)
        if mine:
            hit.append((plan, assigned))
    return hit


def _replace(state: State, plan: Plan, placements: Sequence[Placement], why: str) -> None:
    choose(state, plan)
    if not plan.in_flight:
        return
    for placement in placements:
        homeless = placement in plan.placements and placement.device is None
        if homeless and not assign(state, plan, placement, f"instead: {why}"):
            repartition(state, plan)


def placement_failed(
    state: State, plan: Plan, placement: Placement, device: Device, failure: Failure
) -> None:
    """The device could not fetch or load it: not asked again for a while, somebody else is."""
    refuse(state, device, placement, failure)
    _end_help(state, plan, placement, device.name)
    placement.life.settle("failed", state.now, failure.reason)
    take(state, plan, placement, f"{device.name} failed: {failure.kind}")
    moves.vacate(state, plan, device.name, [placement], f"{device.name} failed")
    choose(state, plan)
    if not plan.in_flight:
        return
    if assign(state, plan, placement, f"instead of {device.name}"):
        return
    if failure.kind == OverBudget.kind:
        repartition(state, plan, Failed(placement.partition, device, failure))
    else:
        give_up(state, plan, placement.partition, device, failure)


def pass_on(
    state: State,
    plan: Plan,
    placement: Placement,
    device: Device,
    failure: Failure,
    choice: Choice,
) -> None:
    """The device gets nowhere with it, and another that is known takes it: it is not asked again
    for a while."""
    refuse(state, device, placement, failure)
    _end_help(state, plan, placement, device.name)
    hand_over(state, plan, placement, choice, failure.reason)


def refuse(state: State, device: Device, placement: Placement, failure: Failure) -> None:
    device.refuse(placement.partition, Refusal(failure, state.now + state.options.refuse_s))
    if failure.kind == OverBudget.kind:
        # It measured more than the formula says: plan smaller ranges for it from now on.
        need = streamed_need if placement.streamed else resident_need
        device.limit_budget(need(placement.segments) - 1)


def _end_help(state: State, plan: Plan, placement: Placement, device: str) -> None:
    """It had begun as a helper, and was given the partition meanwhile."""
    first = placement.partition.first
    for run, index in placement.end_standin(device):
        item = state.item(run, index)
        if item is not None and item.detours.get(first) == device:
            drop_detour(plan, item, first)
            item.forget_holder(device, first)


def standin_failed(
    state: State, plan: Plan, placement: Placement, device: Device, failure: Failure
) -> None:
    """The items that took the detour end with the failure that sent them there."""
    refuse(state, device, placement, failure)
    first = placement.partition.first
    for run, index in placement.end_standin(device.name):
        item = state.item(run, index)
        if item is None:
            continue
        if hedging.unloaded(item, placement.partition):
            item.forget_holder(device.name, first)
            resend_all(state, plan, item)
        else:
            fail(state, item, *item.failures.get(first, (failure.kind, failure.reason)))


def task_failed(
    state: State, plan: Plan, item: Item, first: int, device: str, kind: str, reason: str
) -> None:
    """Once, another device tries: one that has the partition, or that has nothing to do here.
    If there is none, or it fails as well, the item ends with the first failure."""
    placement = plan.stage_of(first)
    helped = hedging.failed(plan, item, first, device)
    if placement is None or (not helped and plan.target(item, first) != device):
        state.counts["stale_failure"] += 1
        return
    item.forget_holder(device, first)
    before = item.failures.setdefault(first, (kind, reason))
    if helped:
        resend_all(state, plan, item)
        return
    choice = None
    if first not in item.detours:
        choice = hedging.spare(state, plan, placement, device, CACHED_TIER)
    if choice is None:
        fail(state, item, *before)
        return
    placement.stand_in(choice.device, item.key)
    item.detours[first] = choice.device
    resend_all(state, plan, item, force=True)
