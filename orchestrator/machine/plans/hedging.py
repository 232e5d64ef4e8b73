"""Tasks that take longer than is plausible: another device does them as well, the first wins.

Hedged requests (Dean and Barroso, "The tail at scale", 2013): a task is late by its device's own
history, and is given to a device that is free; what comes second changes nothing. No device is told
to forget the item while it is under way: it would refuse it for good, and may serve it again; once
the item is over, all that were involved are told. A device that is beaten loses the partition to
the winner, which has it loaded by now: all that waits behind its late task goes on there. Silence
is not looked at here, see `devices.liveness`; a device whose tasks all became slow is found by what
was measured, see `plans.slowing`.
"""

from __future__ import annotations

from orchestrator.machine.items.recovery import drop_detour, send_copy, stage_s, waits_at
from orchestrator.machine.plans.assigning import candidates, hand_over, ready_s
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.item import Hedge, Item, ItemKey
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from orchestrator.planner.ranking import Choice, rank
from wire.ids import PartitionId

NEVER = float("inf")
RESIDENT_TIER = 1
LATE_S, LATE_TIMES = 1.0, 4  # over so many times what its device usually takes
NEW_S, NEW_TIMES = 5.0, 20  # the same of a device that did hardly any such task
ARRIVAL_MOST_S = 60.0  # of an input that nobody tells of: only the device says how slow its link is
HELPS = 3  # so often for one item: helpers may fail, or die
KNOWN = 3  # tasks after which a device's own history counts


def check(state: State, key: ItemKey) -> float:
    """The item's tasks that were begun, or wait, or whose input was sent and is not heard of, and
    are not done; when to look again."""
    item = state.item(*key)
    plan = state.plan_of(item) if item is not None else None
    if item is None or plan is None or item.state != "admitted":
        return NEVER
    if item.suspicion is not None or item.helps >= HELPS:
        return NEVER
    stages = dict.fromkeys((*item.started, *item.inputs, *_sent_ahead(plan, item)))
    looks = [_check_task(state, plan, item, first) for first in stages]
    return min(looks, default=NEVER)


def _check_task(state: State, plan: Plan, item: Item, first: int) -> float:
    placement = plan.stage_of(first)
    device = state.devices.get(placement.device) if placement is not None else None
    if placement is None or device is None or first in item.detours:
        return NEVER
    if _waits_for_others(item, first):
        return NEVER
    if device.name in item.inputs.get(first, ()):
        late_s = _late_s(state, placement)
    elif item.sent.get(first) == device.name:
        late_s = _late_s(state, placement) + _arrivals_s(state, plan, placement, device)
        late_s = min(ARRIVAL_MOST_S, late_s)
    else:
        return NEVER
    late_at = max(_since(item, first, device), state.heard_at) + late_s
    if state.now < late_at:
        return late_at
    if not _hedge(state, plan, item, placement):
        return state.now + late_s  # somebody may be free by then
    return NEVER


def _sent_ahead(plan: Plan, item: Item) -> tuple[int, ...]:
    """Where its next input is on its way to, if nobody told that it came."""
    placement = waits_at(plan, item)
    first = placement.partition.first if placement is not None else -1
    return (first,) if first in item.sent and not item.inputs.get(first) else ()


def _arrivals_s(state: State, plan: Plan, placement: Placement, device: Device) -> float:
    """Until it is there, if all that is in flight is on its way to the device before it."""
    nbytes = state.estimates.cut_nbytes(plan.manifest, plan.key[1], placement.partition.first)
    transfer_s = state.estimates.transfer_s(device.name, device.telemetry, nbytes)
    return len(plan.in_flight) * transfer_s


def _waits_for_others(item: Item, first: int) -> bool:
    """At a barrier, for the rest of its wave."""
    return item.barrier and first not in item.started


def _since(item: Item, first: int, device: Device) -> float:
    """When it began; or what waits there, waits since the device last did anything."""
    return item.started.get(first, max(item.progress_at, device.progress_at))


def _late_s(state: State, placement: Placement) -> float:
    """After how long the task is late; a load before it counts as well."""
    usual_s, device = stage_s(state, placement), placement.device or ""
    if placement.life.state != "resident":
        usual_s += ready_s(state, placement)
    if state.estimates.tasks_seen(device, placement.partition) < KNOWN:
        return NEW_S + NEW_TIMES * usual_s
    return LATE_S + LATE_TIMES * usual_s


def _hedge(state: State, plan: Plan, item: Item, placement: Placement) -> bool:
    """Have another device do it as well, if one is free and the input can be had."""
    first, device = placement.partition.first, placement.device
    assert device is not None
    if state.now < placement.no_help_until:
        return False  # another item asked a moment ago
    choice = spare(state, plan, placement, device, RESIDENT_TIER)
    if choice is None or not send_copy(state, item, first, choice.device):
        placement.no_help_until = state.now + LATE_S
        return False
    placement.stand_in(choice.device, item.key)
    since = item.started.get(first, state.now)
    item.detours[first], item.hedges[first] = choice.device, Hedge(device, since, choice)
    item.helps += 1
    state.counts["hedged"] += 1
    return True


def spare(state: State, plan: Plan, placement: Placement, device: str, tier: int) -> Choice | None:
    """The best other device that has the partition, up to this tier, or nothing to do."""
    for choice in rank(candidates(state, plan, placement, {device}), plan.want.policy):
        known = state.devices.get(choice.device)
        if choice.tier <= tier or (known is not None and not state.is_engaged(known)):
            return choice
    return None


def task_done(state: State, plan: Plan, item: Item, first: int, device: str) -> None:
    """The first of two is done: the other is not waited for."""
    hedge, other = item.hedges.get(first), item.detours.get(first)
    placement = plan.stage_of(first)
    if hedge is None or placement is None or device not in (hedge.device, other):
        return
    if device == other:
        state.counts["hedges_won"] += 1
        if placement.device == hedge.device:
            _replace_late(state, plan, item, placement, hedge)
    drop_detour(plan, item, first)


def _replace_late(state: State, plan: Plan, item: Item, placement: Placement, hedge: Hedge) -> None:
    """The late device loses its partition to its helper, if that may keep it."""
    _learn(state, placement, hedge)
    late, helper = state.devices.get(hedge.device), state.devices.get(hedge.choice.device)
    elsewhere = any(each.device == hedge.choice.device for each in plan.placements)
    if late is None or helper is None or elsewhere or not state.usable(helper):
        return
    late.beaten = late.running
    why = f"{late.name} was late with item {item.index}"
    hand_over(state, plan, placement, hedge.choice, why)


def _learn(state: State, placement: Placement, hedge: Hedge) -> None:
    """It took at least so long."""
    part, took_s = placement.partition, state.now - hedge.since
    state.estimates.learn_task(hedge.device, part, placement.cost, took_s)


def failed(plan: Plan, item: Item, first: int, device: str) -> bool:
    """One of two failed the task: the other goes on. Whether that is so."""
    hedge = item.hedges.get(first)
    if hedge is None:
        return False
    if device == hedge.device:
        del item.hedges[first]  # from now on there is only the other
    elif device == item.detours.get(first):
        drop_detour(plan, item, first)
    else:
        return False
    return True


def unloaded(item: Item, part: PartitionId) -> bool:
    """The device that was to do it as well could not load the partition; whether it was only to
    do so as well."""
    if item.hedges.pop(part.first, None) is None:
        return False
    item.detours.pop(part.first, None)
    return True
