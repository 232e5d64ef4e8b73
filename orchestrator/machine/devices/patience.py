"""How long a device with work may say nothing before it is asked, and how long its answer may take.

An adaptive failure detector, by the rule of TCP's timer (RFC 6298): what a device's work and link
take anyway is allowed for, what answers took lately is allowed for, and a doubt that proved wrong
doubles what is allowed next. It only measures; what follows from silence is decided in `liveness`.
"""

from __future__ import annotations

from orchestrator.machine.items.recovery import stage_s
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State

QUIET_S = 1.0  # a device that computes tells of it several times a second
QUIET_MOST_S = 12.0  # whatever it does: telemetry takes 10 s
QUIET_TASKS = 2  # so many tasks may pass without a word
IDLE_SHARE = (
    1 / 8
)  # of the time for which it had nothing to do: who waits is asked ever more rarely
ANSWER_S = 1.5  # Wi-Fi that saves power, a lost packet or two
ANSWER_TIMES = 2  # so many times what several answers took lately


def quiet_s(state: State, device: Device) -> float:
    """Seconds of silence after which a device that work was given to is asked."""
    tasks = [
        stage_s(state, placement)
        for plan in state.plans.on(device.name)
        if plan.in_flight
        for placement in plan.placements
    ]
    usual_s = QUIET_S + QUIET_TASKS * max(tasks, default=0.0)
    idle_s = state.now - max(device.progress_at, device.engaged_since or state.now)
    return min(QUIET_MOST_S, max(usual_s, IDLE_SHARE * idle_s))


def answer_s(state: State, device: Device) -> float:
    """Seconds that its answer may take: it comes behind what is under way to the device, and a
    load may keep a small phone from answering."""
    busy_s = sum(
        _arrivals_s(state, plan, placement, device) + _loading_s(state, placement, device)
        for plan in state.plans.on(device.name)
        for placement in plan.placements
        if placement.device == device.name
    )
    usual_s = ANSWER_S * 2.0 ** device.wrong_doubts(state.now)
    lag_s = state.devices.answers.slow_s(state.now)
    return min(state.options.lease_s, usual_s + ANSWER_TIMES * lag_s + busy_s)


def _arrivals_s(state: State, plan: Plan, placement: Placement, device: Device) -> float:
    """Until all that was sent to it and has not come is there."""
    first, name = placement.partition.first, device.name
    coming = sum(
        item.sent.get(first) == name and name not in item.inputs.get(first, ())
        for item in plan.in_flight.values()
    )
    if not coming:
        return 0.0
    nbytes = state.estimates.cut_nbytes(plan.manifest, plan.key[1], first)
    return coming * state.estimates.transfer_s(name, device.telemetry, nbytes)


def _loading_s(state: State, placement: Placement, device: Device) -> float:
    """What a load takes that may be under way there."""
    if placement.life.state == "resident":
        return 0.0
    segments, nbytes = len(placement.segments), placement.total_nbytes
    return state.estimates.load_s(device.name, device.telemetry, nbytes, segments)
