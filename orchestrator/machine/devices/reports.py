"""What devices report of themselves: telemetry, and numbered events.

Events of another boot, seen before or ahead of a gap are dropped and counted: a device repeats
them from the first that was not acknowledged. What is known is never believed over a newer
inventory (see `inventories`); partitions are `residencies`'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.machine.devices import (
    deaths,
    liveness,
    lost_frames,
    profiling,
    replacing,
    standing,
)
from orchestrator.machine.devices.inventories import take_inventory
from orchestrator.machine.devices.item_news import find, note
from orchestrator.machine.devices.residencies import look_at_plans, served
from orchestrator.machine.items import outsized, recovery, releases
from orchestrator.machine.plans import hedging, slowing
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.events import (
    EventsArrived,
    TelemetrySeen,
)
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from wire.errors import TooLarge
from wire.ids import PartitionId
from wire.messages.events import (
    DeviceEvent,
    EventBatch,
    FetchStarted,
    FrameDropped,
    FrameReceived,
    Inventory,
    PartitionEvicted,
    PartitionLoaded,
    Pong,
    Profiled,
    TaskDone,
    TaskFailed,
    TaskStarted,
)
from wire.topics import ORCHESTRATOR

HURRY_COUNT = 20  # so many events are acknowledged at once, without waiting for more
GAP_S = 1.0  # a gap that is repeated for so long will not be filled


def telemetry_seen(state: State, event: TelemetrySeen) -> None:
    device = liveness.proven(
        state, event.device, event.telemetry.connection, retained=event.retained
    )
    if device is not None:
        device.telemetry = event.telemetry
        look_at_plans(state, device)


def events_arrived(state: State, event: EventsArrived) -> None:
    device, batch = state.devices.met(event.device, state.now), event.batch
    if batch.boot != device.boot:
        state.counts["other_boot"] += 1
        return
    liveness.adopt_connection(state, device, batch.connection)
    liveness.proven(state, event.device, batch.connection, retained=False)
    if not _follows(state, device, batch):
        state.counts["event_gap"] += 1
        return
    seen = device.last_seq if device.last_seq is not None else batch.first_seq - 1
    fresh = batch.events[max(0, seen + 1 - batch.first_seq) :]
    state.counts["repeated_event"] += len(batch.events) - len(fresh)
    device.last_seq = max(seen, batch.last_seq)
    for told in fresh:
        if not isinstance(told, (Inventory, Pong)):  # these only answer what we asked
            device.progress_at = state.now
        _HANDLERS[type(told)](state, device, told)
    _acknowledge(state, device, len(fresh))
    look_at_plans(state, device)


def _follows(state: State, device: Device, batch: EventBatch) -> bool:
    """Whether the batch continues what was seen, numbers that are gone for good aside. One that
    keeps coming over a gap does: what is missing was acknowledged to an orchestrator before us."""
    if device.last_seq is None or batch.first_seq - batch.gone <= device.last_seq + 1:
        device.gap = None
        return True
    first, times, since = device.gap or (batch.first_seq, 0, state.now)
    if first != batch.first_seq:
        first, times, since = batch.first_seq, 0, state.now
    device.gap = (first, times + 1, since)
    if times >= 1 and state.now >= since + GAP_S:
        device.last_seq, device.gap = batch.first_seq - 1, None
        state.ask_report(device)
        return True
    return False


def _acknowledge(state: State, device: Device, fresh: int) -> None:
    device.unacknowledged += fresh
    hurry = device.unacknowledged >= HURRY_COUNT
    due_at = state.now if hurry else state.now + state.options.coalesce_s
    if hurry:
        device.unacknowledged = 0
    state.commands.acknowledge(device.name, device.boot, device.last_seq or 0, due_at)


def _frame_received(state: State, device: Device, told: FrameReceived) -> None:
    at = told.activation
    item = find(state, device, at.run, at.item)
    if item is None or not standing.takes(state, device, item, at.cut, "frame_received"):
        return
    if (at.cut, device.boot) in item.spent:
        state.counts["repeated_frame"] += 1  # computed there before: it is not queued again
        return
    _came_in(state, device, item, at.cut)


def _came_in(state: State, device: Device, item: Item, cut: int) -> None:
    if item.received_cut >= cut:
        state.runs[item.run].close_cuts()  # it came anew, and may wait anew
    item.receive(cut, device.name)
    item.sent.setdefault(cut, device.name)
    if item.opened.get(cut) == device.name:
        del item.opened[cut]
    releases.received(state, item, cut)
    note(state, item, "received", cut, device)


def _task_started(state: State, device: Device, told: TaskStarted) -> None:
    task = told.task
    device.runs(task)
    item = find(state, device, task.run, task.item)
    if item is not None and standing.serves(state, device, item, task, "task_started"):
        _began(state, device, item, task.first)
    elif item is not None:
        device.running = None


def _began(state: State, device: Device, item: Item, first: int) -> None:
    item.started.setdefault(first, state.now)
    state.agenda.look("late", item.key)
    note(state, item, "started", first, device)


def _task_done(state: State, device: Device, told: TaskDone) -> None:
    task, cut = told.task, told.task.last + 1
    device.ended_task(task)
    _learn_task(state, device, told)
    item = find(state, device, task.run, task.item)
    if item is None or not standing.made(state, device, item, task, "task_done"):
        return
    _note_untold(state, device, item, task.first)
    item.computed(task.first, device.name)
    if task.attempt >= item.attempt - 1:
        item.spent.add((task.first, device.boot))
    if releases.held_late(state, item, cut, device.name):
        return
    item.make(cut, device.name)
    note(state, item, "done", cut, device)
    plan = state.plan_of(item)
    if plan is not None and item.state == "admitted":
        _note_sent(state, plan, item, cut, device, told)
        hedging.task_done(state, plan, item, task.first, device.name)
        recovery.resend_all(state, plan, item)


def _note_untold(state: State, device: Device, item: Item, first: int) -> None:
    """A task that ends in the batch in which it began is told once: that it is done says that its
    input had come, and that it was begun."""
    held = device.name in item.inputs.get(first, ())
    if not held and (first, device.boot) not in item.spent:
        _came_in(state, device, item, first)
    if ("started", first, device.name) not in item.facts:
        device.forget_before()
        _began(state, device, item, first)


def _note_sent(
    state: State, plan: Plan, item: Item, cut: int, device: Device, told: TaskDone
) -> None:
    """To whom the device has sent the output: it says so. Its newest assignment would not tell: it
    may have been obeyed since, and the output be on its way to a device that is gone."""
    if told.parked:
        item.parked[cut] = device.name
        item.sent.pop(cut, None)
        return
    if told.to is not None and (told.to == ORCHESTRATOR or told.to in state.devices):
        item.sent[cut] = told.to
        if told.to != ORCHESTRATOR:
            item.touch(told.to)
        return
    published = state.published.get(device.name)
    if cut == plan.end:
        item.sent[cut] = ORCHESTRATOR
    elif published is not None and device.applied_stamp >= published.stamp:
        after = plan.stage_of(cut)
        if after is not None and after.device is not None:
            item.sent[cut] = after.device


def _learn_task(state: State, device: Device, told: TaskDone) -> None:
    task = told.task
    run = state.runs.get(task.run)
    manifest = state.manifests.get(run.model) if run is not None else None
    if run is None or manifest is None or task.last >= len(manifest.segments):
        return
    part = PartitionId(run.model, run.options.exact, task.first, task.last)
    if not state.places.serves(device.name, part):
        return
    cost = sum(segment.cost for segment in manifest.segments[task.first : task.last + 1])
    estimates = state.estimates
    nbytes, hop_s = (told.input_nbytes, told.output_nbytes), told.decode_s + told.encode_s
    estimates.learn_frames(device.name, manifest, part, hop_s, nbytes)
    estimates.learn_task(device.name, part, cost, told.compute_s)
    profiling.task_done(state, device, part)
    for plan, placement in served(state, device, part):
        if placement.device == device.name:
            slowing.task_done(state, plan, placement, run.options, told.compute_s)


def _task_failed(state: State, device: Device, told: TaskFailed) -> None:
    task = told.task
    device.ended_task(task)
    item = find(state, device, task.run, task.item)
    plan = state.plan_of(item) if item is not None else None
    if item is None or not standing.serves(state, device, item, task, "task_failed"):
        return
    if plan is not None and item.state == "admitted":
        why = outsized.reason(plan.manifest, told) if told.made else told.reason
        replacing.task_failed(state, plan, item, task.first, device.name, told.kind, why)


def _frame_dropped(state: State, device: Device, told: FrameDropped) -> None:
    at = told.activation
    if told.kind == TooLarge.kind:
        releases.make_way(state, device.name)
    item = find(state, device, at.run, at.item)
    if item is None or not standing.handles(state, device, item, at.cut, "frame_dropped"):
        return
    plan = state.plan_of(item)
    if plan is None or item.state != "admitted":
        return
    if told.sender and not standing.sends(state, told.sender, item, at.cut):
        _strangers_dropped(state, plan, item, device, at.cut)
        return
    lost = lost_frames.Told(device.name, told.sender, told.kind, told.reason)
    lost_frames.lost(state, plan, item, at.cut, lost)


def _strangers_dropped(state: State, plan: Plan, item: Item, device: Device, cut: int) -> None:
    """It was no copy of ours: nothing is lost, unless it was taken for one."""
    state.counts["unplaced_sender"] += 1
    if device.name in item.inputs.get(cut, ()):
        item.forget_frame(item.inputs, device.name, cut)
        recovery.resend_all(state, plan, item)


def _partition_loaded(state: State, device: Device, told: PartitionLoaded) -> None:
    deaths.loaded(state, device, told.partition)
    manifest = state.manifests.get(told.partition.model)
    if manifest is None:
        return
    segments = manifest.segments[told.partition.first : told.partition.last + 1]
    blobs = {blob.digest: blob.nbytes for segment in segments for blob in segment.blobs}
    device.cache(blobs)
    state.estimates.learn_load(
        device.name, told.fetched_nbytes, told.fetch_s, sum(blobs.values()), told.load_s
    )


def _partition_evicted(state: State, device: Device, told: PartitionEvicted) -> None:
    state.counts["evicted"] += 1  # residency says the rest


def _fetch_started(state: State, device: Device, told: FetchStarted) -> None:
    for _, placement in served(state, device, told.partition):
        if placement.life.state == "assigned":
            placement.life.move("fetching", state.now, "as reported")


def _pong(state: State, device: Device, told: Pong) -> None:
    liveness.answered(state, device, told.nonce, told.at_s)


def _profiled(state: State, device: Device, told: Profiled) -> None:
    if state.places.serves(device.name, told.partition):
        profiling.profiled(state, device, told)
    else:
        state.counts["unplaced_profile"] += 1


_HANDLERS: dict[type[DeviceEvent], Callable[[State, Device, Any], None]] = {
    FrameReceived: _frame_received,
    TaskStarted: _task_started,
    TaskDone: _task_done,
    TaskFailed: _task_failed,
    FrameDropped: _frame_dropped,
    PartitionLoaded: _partition_loaded,
    PartitionEvicted: _partition_evicted,
    FetchStarted: _fetch_started,
    Inventory: take_inventory,
    Pong: _pong,
    Profiled: _profiled,
}
