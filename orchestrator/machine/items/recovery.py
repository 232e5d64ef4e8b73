"""Who holds what, and what has to be sent again so that an item goes on.

The deepest activation that a reachable device still holds is where an item resumes; with none,
its input is sent again. A send is idempotent, so a doubtful one is made. Every recovery is
bounded: fruitless rounds, dropped frames and the time without progress each have a limit, after
which the item fails and says what it waited for; devices that end over it are counted in
`suspects`.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.machine.items import suspects
from orchestrator.machine.items.outcomes import fail
from orchestrator.machine.records.instructions import SendInput
from orchestrator.machine.records.item import Item, ItemKey
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from wire.ids import ActivationId
from wire.messages.commands import Send
from wire.topics import ORCHESTRATOR

NEVER = float("inf")
DROP_RETRY_S, DROP_RETRY_MOST_S = 0.2, 15.0
AFRESH_ROUNDS = 3  # fruitless recoveries after which an item starts from its input
STAGE_TIMES = 20  # so many times its estimate may a stage take before we ask


@dataclass(frozen=True, slots=True)
class Move:
    """The activation at `cut` is to go from `holder` (None: our own spool) to `to`."""

    cut: int
    holder: str | None
    to: str


def move_for(state: State, plan: Plan, item: Item) -> Move | None:
    """What would let the item go on; None if it is where it should be, or nobody is chosen."""
    for cut in reversed(plan.cuts):
        to = ORCHESTRATOR if cut == plan.end else plan.target(item, cut)
        if cut > 0 and _is_spent(state, item, cut, to):
            continue
        if to is not None and to in item.inputs.get(cut, ()) and state.devices.reachable(to):
            return None
        holder = _holder(state, item, cut)
        if holder is not None or cut == 0:
            known = to == ORCHESTRATOR or state.devices.reachable(to)
            return Move(cut, holder, to) if to is not None and known else None
    return None


def _is_spent(state: State, item: Item, cut: int, to: str | None) -> bool:
    """It computed this already under this attempt: what it made is gone, and only a higher
    attempt, from the input on, makes it compute again."""
    device = state.devices.get(to)
    return device is not None and (cut, device.boot) in item.spent


def _is_under_way(state: State, item: Item, move: Move) -> bool:
    """It was sent there, and what came of it was not lost since. Twice without any news, the loss
    is not what keeps the item: then the stall timer, whose rounds are counted, sends again."""
    lost = _is_spent(state, item, move.cut, move.to) and not item.hurried
    return item.sent.get(move.cut) == move.to and not lost


def _holder(state: State, item: Item, cut: int) -> str | None:
    held = item.outputs.get(cut, {})
    return next((device for device in held if state.devices.reachable(device)), None)


def resend_all(state: State, plan: Plan, item: Item, *, force: bool = False) -> bool:
    """Send what the item needs, unless it is believed to be under way; whether it was sent."""
    if item.state != "admitted":
        return False
    move = move_for(state, plan, item)
    if move is None or (not force and _is_under_way(state, item, move)):
        return False
    item.hurried |= _is_spent(state, item, move.cut, move.to)
    item.sent[move.cut] = move.to
    item.touch(move.to)
    state.agenda.look("late", item.key)  # if nobody tells that it came
    if move.holder is None:
        _send_input(state, item, move.to)
    elif item.parked.pop(move.cut, None) != move.holder or force:
        # What is parked goes by itself once the route is filled.
        state.commands.post(move.holder, Send(item.run, move.cut, (item.index,), move.to))
    return True


def _send_input(state: State, item: Item, to: str) -> None:
    run = state.runs[item.run]
    activation = ActivationId(item.run, item.index, 0)
    state.inputs.append(SendInput(activation, to, item.attempt, run.options))
    item.attempt += 1
    item.sends += 1
    item.spent.clear()


def send_copy(state: State, item: Item, cut: int, to: str) -> bool:
    """The same activation to another device as well; whether anybody can send it."""
    holder = _holder(state, item, cut)
    if holder is None and (cut > 0 or not item.has_input):
        return False
    item.touch(to)
    item.sent[cut] = to
    if holder is not None:
        state.commands.post(holder, Send(item.run, cut, (item.index,), to))
        return True
    activation = ActivationId(item.run, item.index, 0)
    options = state.runs[item.run].options
    state.inputs.append(SendInput(activation, to, item.attempt - 1, options))
    return True


def forget_device(state: State, device: str) -> None:
    """All frames it held are out of reach; go on from elsewhere where that can be."""
    for plan, item in state.in_flight_on(device):
        detours = [first for first, who in item.detours.items() if who == device]
        if item.forget_holder(device) or detours:
            state.runs[item.run].close_cuts()
            item.opened = {cut: who for cut, who in item.opened.items() if who != device}
            for first in detours:
                drop_detour(plan, item, first)
            resend_all(state, plan, item)


def doubt(state: State, device: str) -> None:
    """It connected anew, perhaps because the broker died, and said what it holds: whatever else
    was under way to it, or from it to others, counts as sent no more."""
    for _, item in state.in_flight_on(device):
        for cut, to in list(item.sent.items()):
            concerned = to == device or device in item.outputs.get(cut, ())
            if concerned and to not in item.inputs.get(cut, ()):
                del item.sent[cut]


def drop_detour(plan: Plan, item: Item, first: int) -> None:
    device = item.detours.pop(first)
    if item.hedges.pop(first, None) is not None:
        item.agenda.look("late", item.key)  # it may be late again
    placement = plan.stage_of(first)
    if placement is not None:
        placement.release_standin(device, item.key)


def frame_dropped(state: State, plan: Plan, item: Item, cut: int, device: str, sender: str) -> bool:
    """A frame of the sender's was given up at `device`: it is sent again after a while that
    doubles each time. False: that was tried too often since the last news."""
    item.forget_holder(device, cut)
    item.sent.pop(cut, None)
    if cut in item.hedges and item.detours.get(cut) == device:
        drop_detour(plan, item, cut)  # it was only to help
        resend_all(state, plan, item)
        return True
    drops = item.drops[sender] = item.drops.get(sender, 0) + 1
    if drops > state.options.drops:
        return False
    delay_s = min(DROP_RETRY_MOST_S, DROP_RETRY_S * 2 ** (drops - 1))
    item.retry_by(state.now + delay_s)
    return True


def check(state: State, key: ItemKey) -> float:
    """Look after an item that is due; when to look again."""
    item = state.item(*key)
    if item is not None and item.state == "suspect":
        return suspects.check(state, item)
    plan = state.plan_of(item) if item is not None else None
    if item is None or plan is None or item.state != "admitted":
        return NEVER
    if item.retry_at <= state.now:
        item.retry_at = NEVER
        resend_all(state, plan, item, force=True)
    if item.check_at <= state.now:
        _check_item(state, plan, item)
    return min(item.retry_at, item.check_at) if item.state == "admitted" else NEVER


def watch(state: State, plan: Plan, item: Item) -> None:
    """(Re)start the item's stall timer, after its admission and after each progress."""
    item.check_by(state.now + stall_s(state, plan))


def stall_s(state: State, plan: Plan) -> float:
    slowest = max((stage_s(state, placement) for placement in plan.placements), default=0.0)
    return max(state.options.stall_s, STAGE_TIMES * slowest)


def stage_s(state: State, placement: Placement) -> float:
    """One task there, as far as is known."""
    device = state.devices.get(placement.likely)
    readings = device.telemetry if device is not None else None
    return state.estimates.compute_s(
        placement.likely or "", readings, placement.partition, placement.segments
    )


def _check_item(state: State, plan: Plan, item: Item) -> None:
    heard_at, limit_s = max(last_sign(state, plan, item), state.heard_at), stall_s(state, plan)
    if state.now < heard_at + limit_s:
        item.check_at = heard_at + limit_s
        return
    item.check_at = state.now + limit_s
    if plan.starved_since is not None:
        return  # how long a device is waited for is another limit
    silent_s = state.now - heard_at
    if silent_s >= state.options.item_limit_s:
        fail(state, item, "timed_out", f"{waits_for(plan, item)} for {silent_s:.0f} s")
        return
    item.rounds += 1
    if item.rounds > state.options.rounds:
        tried = f"asking again {state.options.rounds} times changed nothing"
        fail(state, item, "timed_out", f"{waits_for(plan, item)}; {tried}")
        return
    item.asked = True
    item.opened.clear()
    state.runs[item.run].close_cuts()
    for name in involved(plan, item):
        device = state.devices.get(name)
        if device is not None:
            state.ask_report(device)


def last_sign(state: State, plan: Plan, item: Item) -> float:
    """When the item, or the device that it queues at, last did anything. A device that fetches
    or loads says how far it is; what it said last may be old, so it excuses nothing itself."""
    placement = waits_at(plan, item)
    device = state.devices.get(plan.target(item, placement.partition.first)) if placement else None
    return max(item.progress_at, device.progress_at if device is not None else float("-inf"))


def waits_at(plan: Plan, item: Item) -> Placement | None:
    """The stage whose task is the item's next; None once its result is made."""
    if plan.end in item.outputs:
        return None
    for placement in reversed(plan.placements):
        first = placement.partition.first
        if first in item.inputs or first in item.outputs:
            return placement
    return plan.placements[0] if plan.placements else None


def involved(plan: Plan, item: Item) -> list[str]:
    """Devices that may know something of the item."""
    placement = waits_at(plan, item)
    target = plan.target(item, placement.partition.first) if placement is not None else None
    names = [*item.holders(), *item.sent.values(), *([target] if target else [])]
    return [name for name in dict.fromkeys(names) if name != ORCHESTRATOR]


def waits_for(plan: Plan, item: Item) -> str:
    placement = waits_at(plan, item)
    if placement is None:
        return f"item {item.index} waited for its result to arrive"
    part = placement.partition
    where = plan.target(item, part.first) or "a device"
    what = "compute" if part.first in item.inputs else "receive the input of"
    return f"item {item.index} waited for {where} to {what} segments {part.first} to {part.last}"


def reconcile(state: State, device: str) -> None:
    """The device said what it holds: whoever was asked about may go on."""
    for plan, item in state.in_flight_on(device):
        if item.asked and device in involved(plan, item):
            item.asked = False
            if item.rounds >= AFRESH_ROUNDS:
                _start_afresh(state, plan, item)
            elif not resend_all(state, plan, item, force=True):
                item.rounds = 0  # it is where it should be, and only slow


def _start_afresh(state: State, plan: Plan, item: Item) -> None:
    """Sending on from the deepest holder changed nothing: from the input, under a new attempt."""
    to = plan.target(item, 0)
    if to is not None and state.devices.reachable(to):
        item.sent[0] = to
        _send_input(state, item, to)
