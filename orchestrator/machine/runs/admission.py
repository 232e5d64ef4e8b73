"""Lets items in: once their worst-case bytes have room at every hop, in order, runs in turn.

What an item reserves on a device is the bound of what comes in and of what goes out there, for
each partition that the device serves; it is given back with the item's terminal outcome. An item
alone on a device is always let in. Nothing that was admitted is ever refused afterwards, so this
is the only place where back-pressure acts; before it, credits bound the inputs on our disk. When
devices are lost and those that are left serve more, the youngest items are sent home until the
others fit: they wait again, and begin from their input when there is room.
"""

from __future__ import annotations

from orchestrator.machine.items.outcomes import drop_standins, fail
from orchestrator.machine.items.recovery import resend_all, watch
from orchestrator.machine.plans.assigning import assign
from orchestrator.machine.plans.planning import compatible
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from wire.messages.commands import Release

LEAST_WINDOW = 4


def step(state: State) -> float:
    shed(state)
    admit(state)
    return check_waits(state)


def admit(state: State) -> None:
    """Admit whatever may enter now, one item per run in turn."""
    if state.connection is None or state.now < state.settle_until:
        return
    runs = [run for run in state.runs.values() if run.attended and run.waiting]
    turn = state.turn
    blocked: set[str] = set()
    while runs and len(blocked) < len(runs):
        run = runs[turn % len(runs)]
        turn += 1
        if run.run not in blocked and not _admit_next(state, run):
            blocked.add(run.run)
    state.turn = turn % len(runs) if runs else 0


def check_waits(state: State) -> float:
    """Fail stored items that nothing moved for too long; when the next one would."""
    wake = float("inf")
    for run in state.runs.values():
        if not run.attended or not run.waiting or state.connection is None:
            continue
        if state.now >= run.waits_until:
            _check_run(state, run)
        wake = min(wake, run.waits_until)
    return wake


def _check_run(state: State, run: Run) -> None:
    plan = state.plans.get(run.plan_key)
    moved_at = plan.moved_at if plan is not None else float("-inf")
    run.waits_until = state.now + state.options.item_limit_s
    for item in [run.items[index] for index in run.waiting]:
        until = max(moved_at, item.life.since, state.heard_at) + state.options.item_limit_s
        if state.now >= until:
            what = f"item {item.index} waited {state.options.item_limit_s:.0f} s to be let in"
            fail(state, item, "timed_out", f"{what}: {why_not(state, plan, run)}")
        else:
            run.waits_until = min(run.waits_until, until)


def why_not(state: State, plan: Plan | None, run: Run) -> str:
    """Why nothing of it is let in, as far as can be told."""
    if plan is None or not plan.placements:
        return f"model '{run.model_name}' has no plan"
    if not compatible(plan, run):
        return f"other runs use '{run.model_name}' in {len(plan.placements)} partitions"
    away = [
        name
        for name in dict.fromkeys(placement.likely for placement in plan.placements)
        if name is not None and not _is_usable(state, name)
    ]
    return f"{', '.join(away)} did not answer" if away else "no device had room"


def _is_usable(state: State, name: str) -> bool:
    device = state.devices.get(name)
    return device is not None and state.usable(device)


def _admit_next(state: State, run: Run) -> bool:
    """Admit the run's next item, or a barrier run's next wave; whether there may be more."""
    plan = state.plans.get(run.plan_key)
    if plan is None or not run.waiting or not ready(state, plan, run):
        return False
    if run.options.barrier:
        _admit_wave(state, plan, run)
        return False
    if len(_in_flight_of(plan, run)) >= window_of(state, plan, run) or not has_room(state, plan):
        return False
    return _enter(state, plan, run)


def ready(state: State, plan: Plan, run: Run) -> bool:
    """The plan is what the run asked for, stands, and all of its devices are there."""
    if plan.retiring or not plan.placements or not compatible(plan, run):
        return False
    names = [placement.likely for placement in plan.placements]
    return all(name is not None and _is_usable(state, name) for name in names)


def window_of(state: State, plan: Plan, run: Run) -> int:
    """Items of a run in flight at once."""
    return state.options.window or max(LEAST_WINDOW, 2 * len(plan.placements))


def _in_flight_of(plan: Plan, run: Run) -> list[Item]:
    return [item for item in plan.in_flight.values() if item.run == run.run]


def has_room(state: State, plan: Plan) -> bool:
    names = {placement.likely for placement in plan.placements}
    return all(_device_has_room(state, plan, name) for name in sorted(filter(None, names)))


def shed(state: State) -> None:
    """Send items home from devices that have come to serve more than they can hold."""
    for device in state.devices:
        hold = device.capabilities.hold_nbytes if device.capabilities is not None else 0
        while device.reachable and reserved_nbytes(state, device.name) > hold:
            there = _in_flight_on(state, device.name)
            if len(there) <= 1:
                break
            send_home(state, *max(there, key=lambda pair: (pair[1].life.since, pair[1].key)))


def _in_flight_on(state: State, device: str) -> list[tuple[Plan, Item]]:
    return [pair for pair in state.in_flight() if pair[0].hop_nbytes_on(device)]


def send_home(state: State, plan: Plan, item: Item) -> None:
    """Out of flight, back to what waits: its room is free for others."""
    run = state.runs[item.run]
    plan.in_flight.pop(item.key)
    run.wave.pop(item.index, None)
    run.admitted -= 1
    drop_standins(state, plan, item)
    for cut, held in item.outputs.items():
        for name in held:
            state.commands.post(name, Release(item.run, cut, (item.index,)))
    item.go_home(state.now)
    run.enqueue(item)
    state.counts["sent_home"] += 1


def _device_has_room(state: State, plan: Plan, name: str) -> bool:
    device = state.devices.get(name)
    if device is None or device.capabilities is None:
        return False
    taken = reserved_nbytes(state, name)
    return taken == 0 or taken + plan.hop_nbytes_on(name) <= device.capabilities.hold_nbytes


def reserved_nbytes(state: State, device: str) -> int:
    """Worst-case bytes on this device of all items in flight."""
    return sum(len(plan.in_flight) * plan.hop_nbytes_on(device) for plan in state.plans.values())


def _admit_wave(state: State, plan: Plan, run: Run) -> None:
    """All of a barrier run's items at once, or as many as have room, once all inputs are here
    or no more of them can be taken in."""
    if run.wave or not _all_here(run):
        return
    run.opened_cuts.clear()
    while run.waiting and has_room(state, plan):
        if not _enter(state, plan, run):
            return


def _all_here(run: Run) -> bool:
    whole = run.count is not None and len(run.stored) >= run.count
    return whole or run.granted == 0


def _enter(state: State, plan: Plan, run: Run) -> bool:
    first = plan.placements[0]
    if first.device is None and not assign(state, plan, first, "an item was admitted"):
        return False
    item = run.items[run.waiting.pop(0)]
    item.life.move("admitted", state.now)
    item.progress_at = state.now
    run.admitted += 1
    run.moved_at = state.now
    run.progress_dirty = True
    run.life.settle("running", state.now)
    if run.options.barrier:
        run.wave[item.index] = None
    plan.in_flight[item.key] = item
    plan.moved_at = state.now
    watch(state, plan, item)
    resend_all(state, plan, item)
    return True
