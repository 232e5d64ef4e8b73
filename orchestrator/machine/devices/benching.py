"""Devices that are there and do nothing of what they were given: others get it.

A device that answers pings is not silent, and yet may obey nothing: a broken agent, or one that
lies about what it could do. An agent tells of a partition as soon as it is told to serve it; one
that does not, in the time that its link and its load may take, loses everything, and gets nothing
for a while that doubles each time. One that fetches and gets no bytes, though others have the
segments on disk, loses that partition only: the store may be out of its reach. A device that
swallows inputs is found by `plans.hedging`; silence is looked at in `liveness`.
"""

from __future__ import annotations

from orchestrator.machine.devices import patience
from orchestrator.machine.devices.replacing import device_gone, pass_on
from orchestrator.machine.plans.assigning import candidates, missing_nbytes
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from orchestrator.planner.ranking import Choice, rank
from wire.errors import StoreUnreachable
from wire.messages.residency import Failure

NEVER = float("inf")
TAKE_S = 3.0  # and what its answer to a ping may take
FETCH_S = 8.0  # without a byte, while others have them
AGAIN_S = 1.0  # nobody else was there to take it


def check(state: State, device: Device) -> float:
    """Take from it what it gets nowhere with; when to look again."""
    at_work = _at_work(state, device)
    due = (_overdue_at(state, device, placement) for _, placement in at_work)
    overdue_at = min(due, default=NEVER)
    if state.now < overdue_at:
        looks = [_check_fetch(state, device, *each) for each in at_work]
        return min([overdue_at, *looks])
    if len(state.devices.usable) < 2:
        return state.now + AGAIN_S  # there is nobody else
    device.bench(state.now)
    state.counts["benched"] += 1
    state.agenda.look_at("device", device.name, device.benched_until)
    device_gone(state, device.name, f"{device.name} does nothing with what it was given")
    return device.benched_until


def _at_work(state: State, device: Device) -> list[tuple[Plan, Placement]]:
    """Its placements in plans that have something to do."""
    return [
        (plan, placement)
        for plan in state.plans.on(device.name)
        if plan.in_flight
        for placement in plan.placements
        if placement.device == device.name
    ]


def _overdue_at(state: State, device: Device, placement: Placement) -> float:
    """Until when it is to have said anything of this."""
    stamp = placement.stamps.get(device.name)
    if placement.life.state != "assigned" or stamp is None:
        return NEVER
    if device.status_of(placement.partition) is not None or device.applied_stamp >= stamp:
        return NEVER
    told_at = max(placement.life.since, device.engaged_since or state.now, state.heard_at)
    return told_at + TAKE_S + patience.answer_s(state, device)


def _check_fetch(state: State, device: Device, plan: Plan, placement: Placement) -> float:
    if placement.life.state != "fetching":
        return NEVER
    news_at = max(placement.life.since, device.progress_at, state.heard_at)
    if state.now < news_at + FETCH_S:
        return news_at + FETCH_S
    choice = _holder(state, plan, placement, device)
    if choice is None:
        return state.now + AGAIN_S
    reason = f"{device.name} gets nothing from the model store"
    pass_on(state, plan, placement, device, Failure(StoreUnreachable.kind, reason), choice)
    return NEVER


def _holder(state: State, plan: Plan, placement: Placement, device: Device) -> Choice | None:
    """The best other device that has all of it on disk."""
    for choice in rank(candidates(state, plan, placement, {device.name}), plan.want.policy):
        other = state.devices.get(choice.device)
        if other is not None and not missing_nbytes(other, placement):
            return choice
    return None
