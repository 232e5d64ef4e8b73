"""What a device was at when its agent ended, and what follows for that: for an item, see
`items.suspects`; a partition whose load ends the agent again and again is refused for longer each
time.

A farewell is no death, nor is silence, nor a lost connection: another boot proves one, and the note
that it found tells what the boot before was at (rule 5: the boot is named, and has to be the one
that we knew). Without a note what was reported last is taken for it.
"""

from __future__ import annotations

from orchestrator.machine.devices import standing
from orchestrator.machine.items import recovery, suspects
from orchestrator.machine.plans import starving
from orchestrator.machine.records.device import Device, LoadDeaths, Refusal
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from wire.errors import LoadEndsDevice
from wire.ids import PartitionId, TaskId
from wire.messages.residency import Failure
from wire.messages.state import LastWork

LOAD_DEATHS = 2  # so often a load may end a device's agent before the device refuses it
LOAD_DEVICES = 4  # of so many a load may end the agent, and of none succeed
LONGEST = 7  # doublings of how long it refuses it
NOTHING = LastWork("")


def presume(state: State, device: Device) -> None:
    """Its last will came: it may have ended over what it ran, or loaded."""
    part = _loading(device)
    if device.draining:
        device.running = None  # it said before that it would end
    elif device.running is None and part is None:
        device.running = _only_one(state, device)
    item = _item(state, device, device.running)
    if item is not None:
        suspects.charge(state, item, (device.name, device.boot), proven=False)
    if part is not None:
        _presume_load(state, device, part)


def _only_one(state: State, device: Device) -> TaskId | None:
    """The start of a task may not have been told any more. What is tried alone is the only one that
    it can have been, at a device that it has yet to pass."""
    for plan in state.plans.on(device.name):
        item = plan.trial if plan.lonely else None
        stage = _ahead(plan, item, device.name) if item is not None else None
        if item is not None and stage is not None:
            item.touch(device.name)
            return TaskId(item.run, item.index, stage.first, stage.last)
    return None


def _ahead(plan: Plan, item: Item, device: str) -> PartitionId | None:
    """What the device serves of the stages that the item has yet to pass."""
    now_at = recovery.waits_at(plan, item)
    parts = [each.partition for each in plan.placements if each.device == device]
    first = now_at.partition.first if now_at is not None else plan.end
    return next((part for part in parts if part.first >= first), None)


def goes_on(state: State, device: Device) -> None:
    """It is back under the boot that we know."""
    item = _item(state, device, device.running)
    if item is not None:
        suspects.withdraw(state, item, (device.name, device.boot))
    _withdraw_load(state, device, _loading(device))


def excuse(state: State, device: Device) -> None:
    """Something else than its work ended it."""
    goes_on(state, device)
    device.running = None
    device.reside({})


def _withdraw_load(state: State, device: Device, part: PartitionId | None) -> None:
    found = _placed(state, part) if part is not None else None
    if found is not None:
        found[1].load_deaths.pop(device.name, None)


def prove(state: State, device: Device, note: LastWork | None) -> None:
    """Another boot is there: what the one that we knew was at ended with it."""
    told = note if note is not None and note.boot == device.boot else _reported(device)
    believed, death = device.running, (device.name, device.boot)
    if told.partition is None:
        _withdraw_load(state, device, _loading(device))
    device.running = None
    if believed is not None and not _is_same(believed, told.task):
        item = _item(state, device, believed)
        if item is not None:
            suspects.withdraw(state, item, death)
    item = _item(state, device, told.task)
    if item is not None:
        suspects.charge(state, item, death, proven=True)
    if told.partition is not None:
        _count_load(state, device, told.partition)


def _reported(device: Device) -> LastWork:
    """So far as we heard of it."""
    if device.draining:
        return NOTHING
    return LastWork(device.boot, device.running, _loading(device))


def _loading(device: Device) -> PartitionId | None:
    """What it told that it loads, unless it told of a task since."""
    if device.running is not None or device.draining:
        return None
    loading = (part for part, entry in device.residency.items() if entry.status == "loading")
    return next(loading, None)


def _is_same(one: TaskId, other: TaskId | None) -> bool:
    return other is not None and one.needs == other.needs


def _item(state: State, device: Device, task: TaskId | None) -> Item | None:
    """The item, if it is under way and the device had to do with it."""
    item = state.item(task.run, task.item) if task is not None else None
    if task is None or item is None or device.name not in item.touched:
        return None
    return item if standing.serves(state, device, item, task, "task_ended") else None


# --- loads ------------------------------------------------------------------------------------


def _placed(state: State, part: PartitionId) -> tuple[Plan, Placement] | None:
    plan = state.plans.get((part.model, part.exact))
    stage = plan.stage_of(part.first) if plan is not None else None
    if plan is None or stage is None or stage.partition != part:
        return None
    return plan, stage


def _presume_load(state: State, device: Device, part: PartitionId) -> None:
    """Devices that nobody starts again prove nothing: a load does not take the whole fleet."""
    found = _placed(state, part)
    if found is None:
        return
    plan, placement = found
    placement.load_deaths[device.name] = None
    if len(placement.load_deaths) >= LOAD_DEVICES:
        names = ", ".join(placement.load_deaths)
        failure = Failure(LoadEndsDevice.kind, f"the agents of {names} ended, {_what_to_do(part)}")
        starving.break_plan(state, plan, failure)


def _what_to_do(part: PartitionId) -> str:
    return (
        f"each while it loaded {part}: look in their logs and the system's, and give the agents a "
        "smaller memory budget if the system kills them for memory"
    )


def _count_load(state: State, device: Device, part: PartitionId) -> None:
    before = device.load_deaths.get(part)
    count = 1 + (before.count if before is not None else 0)
    until = float("-inf")
    if count >= LOAD_DEATHS:
        doubled = min(count - LOAD_DEATHS, LONGEST)
        until = state.now + state.options.refuse_s * 2.0**doubled
    device.note_load_death(part, LoadDeaths(count, until))
    state.counts["load_deaths"] += 1


def refuse_loads(state: State, device: Device) -> None:
    """Another boot is asked for anything anew, but for what ended those before it."""
    for part, deaths in device.load_deaths.items():
        if deaths.until > state.now:
            reason = f"the agent of {device.name} ended {deaths.count} times, {_what_to_do(part)}"
            failure = Failure(LoadEndsDevice.kind, reason)
            device.refuse(part, Refusal(failure, deaths.until))


def loaded(state: State, device: Device, part: PartitionId) -> None:
    """It can be loaded: what ended before is not held against it."""
    device.load_deaths.pop(part, None)
    found = _placed(state, part)
    if found is not None:
        found[1].load_deaths.clear()
