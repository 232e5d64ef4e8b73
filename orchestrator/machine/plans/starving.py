"""Plans that wait for a device, and for how long: one may come, and then it is said that none did.

Also what every device refused: then nobody is waited for.
"""

from __future__ import annotations

from orchestrator.machine.items.outcomes import fail_items, fail_plan
from orchestrator.machine.plans.absence import absent
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.plan import Plan, PlanKey
from orchestrator.machine.records.state import State
from wire.errors import BlobCorrupt, BlobMissing, NoDevice, StoreUnreachable
from wire.ids import PartitionId
from wire.memory import resident_need, streamed_need
from wire.messages.residency import Failure
from wire.quantities import mebibytes

NEVER = float("inf")
MENDED_AT_THE_DESK = (BlobMissing.kind, BlobCorrupt.kind, StoreUnreachable.kind)


def is_broken(state: State, plan: Plan) -> bool:
    """Everybody there refused it not long ago; one who did not changes that."""
    return state.now < plan.broken_until and _refusal(state, plan) is not None


def starve(state: State, plan: Plan) -> float:
    """Something waits for a device: give one the time to come, then say that none did."""
    refusal = _refusal(state, plan)
    if refusal is not None:
        break_plan(state, plan, refusal)
        return NEVER
    if plan.starved_since is None:
        plan.starved_since = state.now
        for run in state.runs.working(plan.key):
            run.touch()
    since = max(plan.starved_since, state.heard_at)  # before, nobody could be heard
    until = max(since + state.options.no_device_s, state.devices.doubted_until)
    if state.now < until:
        return until
    return _fail_starved(state, plan, since)


def _fail_starved(state: State, plan: Plan, since: float) -> float:
    """End what waited so long itself, and leave the rest its time; until when."""
    kind, reason = plan.starved_of or _refused(state, plan) or (NoDevice.kind, nobody(plan))
    limit_s, wake = state.options.no_device_s, NEVER
    for run in state.runs.working(plan.key):
        until = max(since, min(item.life.since for item in run.items.values())) + limit_s
        if state.now < until:
            wake = min(wake, until)
        else:
            fail_items(state, run, kind, f"waited {limit_s:.0f} s: {reason}{absent(state)}")
    if wake == NEVER:
        end_starving(state, plan)
    return wake


def settle(state: State, device: str) -> None:
    """After a start the device said what it holds, or is gone. Once all have, there is nothing to
    wait for."""
    if state.settling.answered(device, state.now):
        for run in state.runs.values():
            state.agenda.look("plan", run.plan_key)
            state.agenda.look("admission", run.plan_key)


def end_starving(state: State, plan: Plan) -> None:
    if plan.starved_since is not None:
        for run in state.runs.working(plan.key):
            run.touch()
        for item in plan.in_flight.values():
            item.progress_at = max(item.progress_at, state.now)
    plan.starved_since, plan.starved_of = None, None


def _refusal(state: State, plan: Plan) -> Failure | None:
    """What every device that could serve a range failed it with."""
    homeless = [each.partition for each in plan.placements if each.likely is None]
    refusals = [state.devices.last_refusal(part) for part in homeless]
    return next((each.failure for each in refusals if each is not None), None)


def _refused(state: State, plan: Plan) -> tuple[str, str] | None:
    """What somebody failed it with, though others could not serve it for lack of room."""
    for placement in plan.placements:
        refusing = state.devices.refusals.usable.get(placement.partition)
        if placement.likely is None and refusing:
            device = next(reversed(refusing.values()))
            failure = device.refused[placement.partition].failure
            return failure.kind, failure.reason
    return None


def end_refusal(state: State, of: tuple[str, PartitionId]) -> float:
    """The device may be asked for the partition again; when, if not yet."""
    name, part = of
    device = state.devices.get(name)
    refusal = device.refused.get(part) if device is not None else None
    if device is None or refusal is None:
        return NEVER
    if state.now < refusal.until:
        return refusal.until
    device.forgive(part)
    state.agenda.look("plan", (part.model, part.exact))
    return NEVER


def break_plan(state: State, plan: Plan, failure: Failure) -> None:
    """Nobody can serve it: its items end with what the devices said, new ones for a while too."""
    plan.broken, plan.broken_until = failure, state.now + state.options.refuse_s
    end_starving(state, plan)
    fail_plan(state, plan, failure.kind, failure.reason)


def give_up(state: State, plan: Plan, part: PartitionId, device: Device, failure: Failure) -> None:
    """Nobody else can serve the range, unless one that did not refuse it is only silent."""
    if state.devices.any_silent_for(part):
        return
    where = f"segments {part.first} to {part.last} of '{plan.manifest.name}'"
    reason = f"no device could serve {where}; the last was {device.name}: {failure.reason}"
    break_plan(state, plan, Failure(failure.kind, reason))


def try_again(state: State, key: PlanKey) -> None:
    """A new run may follow a repair that no device can see: what devices failed with for lack of
    the store's bytes is forgotten, once for each run, and only while nothing is in flight."""
    plan = state.plans.get(key)
    if plan is None or plan.in_flight:
        return
    if plan.broken is not None and plan.broken.kind in MENDED_AT_THE_DESK:
        plan.broken_until = float("-inf")
    for kind in MENDED_AT_THE_DESK:
        refused = state.devices.refusals.by_grounds.get((*key, kind), {})
        for (_, part), device in list(refused.items()):
            device.forgive(part)


def nobody(plan: Plan) -> str:
    """That a device is missing, for which segments, and how much memory they take."""
    homeless = next((each for each in plan.placements if each.likely is None), None)
    what = ""
    if homeless is not None:
        need = streamed_need if homeless.streamed else resident_need
        part, memory = homeless.partition, mebibytes(need(homeless.segments))
        what = f" for segments {part.first} to {part.last}, which take {memory} of memory"
    return f"no device is there{what}: start an agent with `crowdpipe agent --name NAME`"
