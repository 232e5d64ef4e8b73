"""Lets items in: once their worst-case bytes have room at every hop, in order, parties in turn.

Of each party its runs come in turn. While others work on the plan, a party has no more in flight
with a hundred runs than with one, which is what keeps every device of the plan at work; alone it
may have several times that, so that runs of a few items do not wait for each other.

What an item reserves on a device is the bound of what comes in and of what goes out there, for
each partition that the device serves; it is given back with the item's terminal outcome. An item
alone on a device is always admitted. Nothing that was admitted is ever refused afterwards, so this
is the only place where back-pressure acts; before it, credits bound the inputs on our disk. When
devices are lost and those that are left serve more, the youngest items are sent home until the
others fit: they wait again, and begin from their input when there is room.
"""

from __future__ import annotations

from orchestrator.machine.items import suspects
from orchestrator.machine.items.flight import leave_flight
from orchestrator.machine.items.outcomes import fail
from orchestrator.machine.items.recovery import resend_all, watch
from orchestrator.machine.plans.assigning import assign
from orchestrator.machine.plans.planning import compatible
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan, PlanKey
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State

LEAST_WINDOW = 4
MOST_TOGETHER = 64  # windows of a party that is alone: what may be computed in one go, or one call
TURN_S, MOST_IN_A_TURN = 0.02, 8  # of a device that has several short tasks
LOOK_EVERY_S = 1.0
NEVER = float("inf")


def admit(state: State, key: PlanKey) -> float:
    """Let in whatever may enter the plan now, one item per party, and of each per run, in turn."""
    plan = state.plans.get(key)
    if state.connection is None or plan is None:
        return NEVER
    if state.now < state.settling.until:
        return state.settling.until
    if plan.anew:
        plan.anew = False
        state.runs.all_in_turn(key)
    suspects.end_loneliness(state, plan)
    while _may_enter(state, plan):
        run = state.runs.next_in_turn(key)
        if run is None:
            break
        if state.runs.in_flight_of_party(run) >= _most_of_party(state, plan, run):
            state.runs.hold_party_back(run)
        elif not _admit_next(state, plan, run):
            state.runs.hold_back(run)
    _try_suspect(state, plan)
    return NEVER


def _may_enter(state: State, plan: Plan) -> bool:
    """One more item may, and no suspect is to be alone."""
    if not _is_open(state, plan):
        return False
    return not suspects.keeps_others_out(state, plan, lambda item: _may_go(state, plan, item))


def _may_go(state: State, plan: Plan, item: Item) -> bool:
    run = state.runs[item.run]
    return run.attended and compatible(plan, run)


def _is_open(state: State, plan: Plan) -> bool:
    """The plan stands, all of its devices are there, and one more item has room."""
    return not plan.retiring and _all_there(state, plan) and has_room(state, plan)


def _try_suspect(state: State, plan: Plan) -> None:
    """Behind all others: an item that was set aside."""
    item = suspects.next_to_try(state, plan, lambda item: _may_go(state, plan, item))
    if item is None or not _is_open(state, plan) or not _first_is_given(state, plan):
        return
    run = state.runs[item.run]
    suspects.begin_trial(state, plan, item)
    _begin(state, plan, run.let_in(item, state.now))
    run.close_cuts()


def check_waits(state: State, name: str) -> float:
    """Fail stored items of the run that nothing moved for too long; when the next one would."""
    run = state.runs.get(name)
    if run is None or not run.attended or not run.waiting or state.connection is None:
        return NEVER
    if state.now >= run.waits_until:
        _check_run(state, run)
    return run.waits_until if run.waiting else NEVER


def _check_run(state: State, run: Run) -> None:
    plan = state.plans.get(run.plan_key)
    moved_at = plan.moved_at if plan is not None else float("-inf")
    if plan is not None and plan.starved_since is not None:
        moved_at = state.now  # how long a device is waited for is another limit
    run.waits_until = state.now + state.options.item_limit_s
    for item in [run.items[index] for index in run.waiting]:
        until = max(moved_at, item.life.since, state.heard_at) + state.options.item_limit_s
        if state.now >= until:
            what = f"item {item.index} waited {state.options.item_limit_s:.0f} s to be admitted"
            fail(state, item, "timed_out", f"{what}: {why_not(state, plan, run)}")
        else:
            run.waits_until = min(run.waits_until, until)
    run.waits_until = max(run.waits_until, state.now + LOOK_EVERY_S)  # it looks at all of them


def why_not(state: State, plan: Plan | None, run: Run) -> str:
    """Why nothing of it is admitted, as far as can be told."""
    if plan is None or not plan.placements:
        return f"model '{run.model_name}' has no plan"
    if not compatible(plan, run):
        return f"other runs use '{run.model_name}' in {len(plan.placements)} partitions"
    if plan.retiring:
        return "its plan is being replaced by another"
    away = [
        name
        for name in dict.fromkeys(placement.likely for placement in plan.placements)
        if name is not None and not _is_usable(state, name)
    ]
    if away:
        return f"{', '.join(away)} did not answer"
    if state.runs.in_flight_of_party(run) >= _most_of_party(state, plan, run):
        return "other items of its client are under way, as many as may be"
    full = next((name for name in state.plans.hops(plan) if not _has_room(state, plan, name)), "")
    return f"{full or 'a device'} has no free buffer space for one more item"


def _is_usable(state: State, name: str) -> bool:
    device = state.devices.get(name)
    return device is not None and state.usable(device)


def _admit_next(state: State, plan: Plan, run: Run) -> bool:
    """Admit the run's next item, or a barrier run's next wave; whether there may be more."""
    if not compatible(plan, run):
        return False
    if run.options.barrier:
        _admit_wave(state, plan, run)
        return False
    if len(run.in_flight) >= window_of(state, plan, run):
        return False
    return _enter(state, plan, run)


def _all_there(state: State, plan: Plan) -> bool:
    """The plan has ranges, and all of their devices can be used."""
    names = [placement.likely for placement in plan.placements]
    there = all(name is not None and _is_usable(state, name) for name in names)
    return bool(names) and there


def window_of(state: State, plan: Plan, run: Run) -> int:
    """Items of a run in flight at once: alone, as many more as may be computed together, or hardly
    ever two would wait at one device. Beside others, theirs wait there as well."""
    window = _pipeline_window(state, plan)
    if not state.runs.is_alone(run):
        return window
    return window * min(_in_a_turn(state, plan) * run.options.batch_size, MOST_TOGETHER)


def _most_of_party(state: State, plan: Plan, run: Run) -> int:
    """Items of all runs of the run's party in flight at once, which of them is asked for."""
    window = _pipeline_window(state, plan)
    if not state.runs.is_alone(run):
        return window
    most_at_once = min(_in_a_turn(state, plan) * max(1, plan.manifest.batch_limit), MOST_TOGETHER)
    return window * state.options.party_windows * most_at_once


def _pipeline_window(state: State, plan: Plan) -> int:
    """So many items keep every device of the plan at work."""
    return state.options.window or max(LEAST_WINDOW, 2 * len(plan.placements))


def _in_a_turn(state: State, plan: Plan) -> int:
    """So many short tasks a device does in one go if they wait there; until it was seen how long
    they take, one. Who has set the window has counted them."""
    if state.options.window is not None:
        return 1
    slowest_s = max((_lately_s(state, each) for each in plan.placements), default=TURN_S)
    return max(1, min(MOST_IN_A_TURN, int(TURN_S / slowest_s)))


def _lately_s(state: State, placement: Placement) -> float:
    known_s = state.estimates.lately_s(placement.device or "", placement.partition)
    return known_s if known_s is not None else TURN_S


def has_room(state: State, plan: Plan) -> bool:
    """Whether one more item has room at each hop; if not, the plan waits for room there."""
    for name in state.plans.hops(plan):
        if not _has_room(state, plan, name):
            state.plans.wait_for_room(plan, name)
            return False
    return True


def shed(state: State, name: str) -> float:
    """Send items home from a device that has come to serve more than it can hold."""
    device = state.devices.get(name)
    if device is None or device.capabilities is None:
        return NEVER
    while device.reachable and state.plans.reserved_nbytes(name) > device.capabilities.hold_nbytes:
        plans = [plan for plan in state.plans.on(name) if state.plans.hop_nbytes(plan, name)]
        if sum(len(plan.in_flight) for plan in plans) <= 1:
            break
        youngest = [(plan, _youngest(plan)) for plan in plans if plan.in_flight]
        send_home(state, *max(youngest, key=lambda pair: (pair[1].life.since, pair[1].key)))
    return NEVER


def _youngest(plan: Plan) -> Item:
    return next(reversed(plan.in_flight.values()))


def send_home(state: State, plan: Plan, item: Item) -> None:
    """Out of flight, back to what waits: its room is free for others."""
    state.counts["sent_home"] += 1
    if item.suspicion is not None:
        suspects.set_aside(state, plan, item)
        return
    leave_flight(state, plan, item, "stored", "no room for it any more")
    state.runs[item.run].enqueue(item)


def _has_room(state: State, plan: Plan, name: str) -> bool:
    device = state.devices.get(name)
    if device is None or device.capabilities is None:
        return False
    taken = state.plans.reserved_nbytes(name)
    most = device.capabilities.hold_nbytes
    return taken == 0 or taken + state.plans.hop_nbytes(plan, name) <= most


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
    if not _first_is_given(state, plan):
        return False
    _begin(state, plan, run.admit(state.now))
    return True


def _first_is_given(state: State, plan: Plan) -> bool:
    first = plan.placements[0]
    return first.device is not None or assign(state, plan, first, "an item was admitted")


def _begin(state: State, plan: Plan, item: Item) -> None:
    plan.enter(item, state.now)
    watch(state, plan, item)
    resend_all(state, plan, item)
