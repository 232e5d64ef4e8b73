"""Gives partitions to devices: who could serve a placement, who does, and when it is due.

The policy itself is `placement`, the moment `deferral`; here are the facts they are asked with,
and what follows from their answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from orchestrator.machine.items.recovery import resend_all
from orchestrator.machine.plans import moves
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan, PlanKey
from orchestrator.machine.records.state import State
from orchestrator.planner.deferral import Outlook, waits
from orchestrator.planner.offers import Offer, SegmentRange, fits
from orchestrator.planner.ranking import Candidate, Choice, one_each, rank, spread
from orchestrator.planner.rates import DeviceFacts, Rates
from orchestrator.planner.rates import offer_of as planner_offer_of
from orchestrator.planner.stages import stage_of
from wire.manifest import Manifest

HAS_ALL = ("cached", "loading", "resident", "evicting")
MUST_EVICT_TIER = 4
NEVER = float("inf")
NO_RATES = Rates(usual=0.0)
SOON_S = 1e-6  # floating point: what is due in less is due
CONSIDERED = 64  # devices: more are not ranked for each partition
OLDEST = 8  # items in flight by which a stage is judged: they are the furthest
PACE_SLACK = 0.05  # estimates are no better: so much over the plan's pace is still in pace


def facts_of(device: Device) -> DeviceFacts | None:
    """What the planner is told of the device; None if it never said what it can."""
    able = device.capabilities
    if able is None:
        return None
    return DeviceFacts(device.name, able, device.telemetry, device.budget_nbytes, device.cached)


def offer_of(state: State, device: Device, manifest: Manifest, exact: bool) -> Offer | None:
    """What it brings to this model in this mode."""
    facts = facts_of(device)
    if facts is None:
        return None
    return planner_offer_of(facts, state.estimates.rates_on(manifest, exact, device.name))


def capacity_of(device: Device) -> Offer | None:
    """What it could hold of any model, however fast it may be."""
    facts = facts_of(device)
    return None if facts is None else planner_offer_of(facts, NO_RATES)


def offers_on(
    state: State, manifest: Manifest, exact: bool, ranges: Iterable[SegmentRange]
) -> list[Offer]:
    """What the devices of these ranges bring."""
    names = dict.fromkeys(each.device for each in ranges)
    devices = [state.devices.get(name) for name in names]
    listed = [
        offer_of(state, device, manifest, exact)
        for device in devices
        if device is not None and state.usable(device)
    ]
    return [each for each in listed if each is not None]


def _considered(state: State, plan: Plan) -> list[Device]:
    """Devices that may be asked: all of few, and of many those that a search found worth it, that
    have something of the model in memory, or that came last."""
    usable = state.devices.usable
    if len(usable) <= CONSIDERED:
        return list(usable.values())
    meant = [each.meant for each in plan.placements if each.meant is not None]
    holders = [device.name for device in state.devices.holders(plan.key)]
    names = [*meant, *holders[:CONSIDERED], *plan.shortlist, *state.devices.newest]
    found = [usable[name] for name in dict.fromkeys(names) if name in usable]
    if len(found) <= len(plan.placements):
        found += [each for each in islice(usable.values(), CONSIDERED) if each not in found]
    return found


def candidates(
    state: State, plan: Plan, placement: Placement, without: Collection[str] = ()
) -> list[Candidate]:
    """Devices that may have the placement now. One that would have to stream it is asked only if
    the plan says so, or if nobody can hold it whole."""
    able = [
        device
        for device in _considered(state, plan)
        if state.usable(device)
        and device.name not in without
        and not _refused(state, device, placement)
    ]
    able = [device for device in able if not device.stuck] or able
    whole = [d for d in able if _fits(state, plan, placement, d, streamed=False)]
    chosen = [(device, False) for device in whole]
    if placement.streamed or not whole:
        streaming = [d for d in able if _fits(state, plan, placement, d, streamed=True)]
        chosen += [(device, True) for device in streaming if device not in whole]
    return [_candidate(state, plan, placement, device, streamed) for device, streamed in chosen]


def _refused(state: State, device: Device, placement: Placement) -> bool:
    refusal = device.refused.get(placement.partition)
    return refusal is not None and refusal.until > state.now


def _fits(
    state: State, plan: Plan, placement: Placement, device: Device, *, streamed: bool
) -> bool:
    offer = capacity_of(device)
    part = placement.partition
    return offer is not None and fits(
        plan.manifest, part.first, part.last, offer, streamed=streamed
    )


def missing_nbytes(device: Device, placement: Placement) -> int:
    if device.status_of(placement.partition) in HAS_ALL:
        return 0
    blobs = {blob.digest: blob.nbytes for segment in placement.segments for blob in segment.blobs}
    return sum(nbytes for digest, nbytes in blobs.items() if digest not in device.cached)


def _candidate(
    state: State, plan: Plan, placement: Placement, device: Device, streamed: bool
) -> Candidate:
    name, readings, part = device.name, device.telemetry, placement.partition
    missing = missing_nbytes(device, placement)
    estimates = state.estimates
    return Candidate(
        device=name,
        resident=device.status_of(part) == "resident",
        missing_nbytes=missing,
        total_nbytes=placement.total_nbytes,
        occupied_by=occupant(state, device, placement),
        queue_depth=readings.queue_depth if readings is not None else 0,
        fetch_s=estimates.fetch_s(name, readings, missing),
        load_s=estimates.load_s(name, readings, placement.total_nbytes, len(placement.segments)),
        compute_s=estimates.compute_s(name, readings, part, placement.segments),
        transfer_s=estimates.transfer_s(
            name, readings, plan.manifest.cuts[part.first].bound_nbytes
        ),
        streamed=streamed,
        battery_percent=readings.battery_percent if readings is not None else None,
        charging=readings.battery_charging if readings is not None else None,
        temperature_c=readings.temperature_c if readings is not None else None,
    )


def occupant(state: State, device: Device, placement: Placement) -> str | None:
    """What else is in its memory, or assigned to it, as people call it."""
    for part, entry in device.residency.items():
        if part != placement.partition and entry.status in ("loading", "resident"):
            return f"{entry.model_name}[{part.first}-{part.last}]"
    for plan in state.plans.first_on(device.name):
        for other in plan.placements:
            if other.partition != placement.partition and other.device == device.name:
                part = other.partition
                return f"{plan.manifest.name}[{part.first}-{part.last}]"
    return None


def choose(state: State, plan: Plan) -> None:
    """A preliminary device for each placement that has none yet, by what is known now: by the
    policy among those that keep the plan's pace, if each placement can have one of them."""
    if not plan.unassigned:
        return
    fixed = {
        index: placement.device
        for index, placement in enumerate(plan.placements)
        if placement.device is not None
    }
    ranked = [
        [] if index in fixed else _ranked(state, plan, placement)
        for index, placement in enumerate(plan.placements)
    ]
    quick = _in_pace(state, plan, ranked)
    chosen = spread(quick if one_each(quick, fixed) else ranked, fixed)
    for placement, choice in zip(plan.placements, chosen, strict=True):
        placement.choose(choice)


def _ranked(state: State, plan: Plan, placement: Placement) -> list[Choice]:
    able = candidates(state, plan, placement)
    options = state.options
    return rank(able, plan.want.policy, options.cached_share, placement.meant)


def _in_pace(state: State, plan: Plan, ranked: list[list[Choice]]) -> list[list[Choice]]:
    """Without the choices that would make the plan's slowest stage slower than it was meant."""
    meant = [_pace_s(state, plan, each, each.meant, each.streamed) for each in plan.placements]
    known = [seconds for seconds in meant if seconds is not None]
    if not known:
        return ranked
    limit_s = max(known) * (1 + PACE_SLACK)
    return [
        [
            choice
            for choice in choices
            if (_pace_s(state, plan, placement, choice.device, choice.streamed) or 0.0) <= limit_s
        ]
        for placement, choices in zip(plan.placements, ranked, strict=True)
    ]


def _pace_s(
    state: State, plan: Plan, placement: Placement, name: str | None, streamed: bool
) -> float | None:
    """Seconds between two items there; None if the device is not to be had."""
    device = state.devices.get(name)
    if device is None or not state.usable(device):
        return None
    manifest, exact = plan.manifest, plan.key[1]
    offer = offer_of(state, device, manifest, exact)
    if offer is None:
        return None
    part = placement.partition
    weights = sum(segment.weight_nbytes for segment in placement.segments)
    work = state.estimates.work(manifest, exact)
    return stage_of(work, offer, part.first, part.last, weights if streamed else None).pace_s


def assign(state: State, plan: Plan, placement: Placement, why: str) -> bool:
    """Give it to the best device of this moment; False if there is none."""
    choose(state, plan)
    if placement.choice is None:
        return False
    _put(state, plan, placement, placement.choice.device, why)
    return True


def hand_over(state: State, plan: Plan, placement: Placement, choice: Choice, why: str) -> None:
    """Give it to this device in the place of the one that has it."""
    before = placement.device or ""
    take(state, plan, placement, why)
    moves.vacate(state, plan, before, [placement], why)
    placement.choose(choice)
    _put(state, plan, placement, choice.device, why)


def _put(state: State, plan: Plan, placement: Placement, device: str, why: str) -> None:
    _give(state, plan, placement, device, why)
    _make_room(state, plan, device)
    for item in list(plan.in_flight.values()):
        resend_all(state, plan, item)


def ranges_as_placed(plan: Plan) -> tuple[SegmentRange, ...]:
    """Each range with the device that has it, or is expected to."""
    return tuple(
        SegmentRange(each.partition.first, each.partition.last, each.streamed, each.likely)
        for each in plan.placements
    )


def _give(state: State, plan: Plan, placement: Placement, device: str, why: str) -> None:
    _close_barriers(state, plan)
    placement.give(device, state.now, why)
    state.agenda.look("moves", plan.key)
    known = state.devices.get(device)
    if known is not None and known.status_of(placement.partition) == "resident":
        placement.life.move("resident", state.now, "it already was")


def _close_barriers(state: State, plan: Plan) -> None:
    """Something was placed anew: cuts that all had passed may have to be passed again."""
    for run in state.runs.working(plan.key):
        run.close_cuts()


def _make_room(state: State, plan: Plan, device: str) -> None:
    """Plans without work give way: their partitions stay cached on the device's disk."""
    for other in state.plans.on(device):
        if other is not plan and not other.in_flight:
            for placement in other.placements:
                if placement.device == device:
                    take(state, other, placement, "its device serves another model")


def take(state: State, plan: Plan, placement: Placement, why: str) -> None:
    """Back to planned; the device is told with the next assignment to evict it."""
    _close_barriers(state, plan)
    placement.withdraw(state.now, why)


def assign_due(state: State, key: PlanKey) -> float:
    """Assign what is due in a plan with work; when the next is."""
    plan = state.plans.get(key)
    if plan is None or not plan.in_flight or not plan.unassigned:
        return NEVER
    if any(each.likely is None for each in plan.placements):
        choose(state, plan)
    wake = NEVER
    outlooks = [outlook(state, plan, placement) for placement in plan.placements]
    options = state.options
    due = waits(outlooks, options.margin_s, options.margin_share)
    for placement, wait_s in zip(plan.placements, due, strict=True):
        if wait_s is None or placement.choice is None:
            continue
        if wait_s <= SOON_S or placement.choice.tier == 1:
            assign(state, plan, placement, "its input is expected when it will be loaded")
        else:
            wake = min(wake, state.now + wait_s)
    return wake


def outlook(state: State, plan: Plan, placement: Placement) -> Outlook:
    first = placement.partition.first
    oldest = list(islice(plan.in_flight.values(), OLDEST))
    starts = [state.now - item.started[first] for item in oldest if first in item.started]
    device = state.devices.get(placement.likely)
    transfer_s = 0.0
    if device is not None:
        transfer_s = state.estimates.transfer_s(
            device.name, device.telemetry, plan.manifest.cuts[first].bound_nbytes
        )
    return Outlook(
        assigned=placement.device is not None,
        ready_s=ready_s(state, placement),
        compute_s=compute_s(state, placement) * _together(state, plan),
        transfer_s=transfer_s,
        arrived=any(first in item.inputs or first in item.outputs for item in oldest),
        started_s=max(starts, default=None),
    )


def _together(state: State, plan: Plan) -> int:
    """Tasks that a stage does before the next can start: a barrier run's whole wave."""
    item = next(iter(plan.in_flight.values()))
    run = state.runs.get(item.run)
    return max(1, len(run.wave)) if run is not None and run.options.barrier else 1


def compute_s(state: State, placement: Placement) -> float:
    device = state.devices.get(placement.likely)
    readings = device.telemetry if device is not None else None
    return state.estimates.compute_s(
        placement.likely or "", readings, placement.partition, placement.segments
    )


def ready_s(state: State, placement: Placement) -> float:
    """What fetch and load still take."""
    device = state.devices.get(placement.likely)
    if device is None or placement.life.state == "resident":
        return 0.0
    if placement.device is None:
        return placement.choice.ready_s if placement.choice is not None else 0.0
    missing = missing_nbytes(device, placement)
    entry = device.residency.get(placement.partition)
    if entry is not None and entry.status == "fetching":
        missing = max(0, entry.total_nbytes - entry.fetched_nbytes)
    name, readings = device.name, device.telemetry
    load_s = state.estimates.load_s(name, readings, placement.total_nbytes, len(placement.segments))
    return state.estimates.fetch_s(name, readings, missing) + load_s
