"""Devices that became slow while their plan works: throttled by heat, or by a person who plays.

A plan is made by what was known, and is judged anew when that is not so any more: when what a
device takes for its tasks has trebled, and stays so. A group of short tasks waits for the same turn
of a busy processor, so that several slow ones in a row are one hiccup, however long it is until the
next: only several such moments tell. Whether another plan is worth its price is decided in
`planning`.
"""

from __future__ import annotations

from orchestrator.machine.items.recovery import stage_s
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from orchestrator.machine.records.task_times import TaskTimes
from wire.messages.requests import RunOptions

KNOWN = 3  # tasks that its expected time comes from, before it is compared
SLOWED = 3.0
MOMENTS = 5  # some two seconds of a steady stream


def task_done(
    state: State, plan: Plan, placement: Placement, options: RunOptions, took_s: float
) -> None:
    """The device took so long for a task of this partition. One that was computed together with
    others took its share, which no lone one is measured by."""
    device, part, times = placement.device, placement.partition, placement.task_times
    if options.batch_size > 1 or device is None:
        return
    if state.estimates.tasks_seen(device, part) < KNOWN:
        return
    if times.usual_s is None:
        times.quick(stage_s(state, placement))
    elif took_s <= SLOWED * times.usual_s:
        times.quick(took_s)
    else:
        times.slow(state.now)
        if times.slow_moments >= MOMENTS:
            _judge_anew(state, plan, placement, device)


def _judge_anew(state: State, plan: Plan, placement: Placement, device: str) -> None:
    lately_s = state.estimates.lately_s(device, placement.partition)
    usual_s = placement.task_times.usual_s
    if lately_s is None or usual_s is None:
        return
    factor = max(1.0, lately_s / usual_s)
    state.estimates.slowed(device, placement.partition, placement.cost, factor)
    placement.task_times = TaskTimes(usual_s=lately_s)
    plan.judged = False
    state.counts["slowed"] += 1
    state.agenda.look("plan", plan.key)
