"""Answers who would serve a model, and why, without changing anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from orchestrator.machine.plans import searching
from orchestrator.machine.plans.assigning import (
    capacity_of,
    compute_s,
    offer_of,
    offers_on,
    ranges_as_placed,
)
from orchestrator.machine.plans.planning import (
    best_ranges,
    draft,
    items_of,
    ranges_of,
)
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.events import PlanSearched
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan, Want
from orchestrator.machine.records.search import Asked, Search
from orchestrator.machine.records.state import State
from orchestrator.planner.offers import Fleet, Offer, SegmentRange, fits
from orchestrator.planner.partitioning import check_wanted, estimated_s
from orchestrator.planner.ranking import check_policy, duration
from orchestrator.planner.stages import Work
from wire.errors import Busy, CrowdpipeError, FleetTooSmall, InvalidInput, UnknownModel
from wire.manifest import Manifest
from wire.memory import resident_need, streamed_need
from wire.messages.requests import Planned, PlannedPartition, RequestFailed, RequestPlan
from wire.quantities import mebibytes
from wire.topics import user_of

WEIGHED_LIMIT = 8  # devices of which it is said how much slower a batch would be
PREVIEW_AGAIN_S = 1.0
LEFT_OUT_LIMIT = 64  # devices of which it is said why they are not in the plan


def answer(state: State, party: str, asked: RequestPlan) -> None:
    """At once if the plan that stands is asked for, else when ranges are found."""
    try:
        manifest = state.model_named(asked.model)
        if asked.items is not None and not 0 <= asked.items <= state.options.run_items:
            raise InvalidInput(f"a run has 0 to {state.options.run_items} items")
        check_policy(asked.options.policy)
        check_wanted(manifest, asked.options.partitions)
        exact, want = asked.options.exact, Want(asked.options.partitions, asked.options.policy)
        present = _present(state, manifest, exact, want)
        if present is None:
            _check_under_way(state, party)
            about, items = Asked(party, asked), items_of(asked.items)
            searching.ask(state, "preview", manifest, exact, want, items, about)
            return
        plan = draft(state, manifest, exact, want, ranges_of(present), present.shortlist)
        planned = _planned(state, plan, asked)
    except CrowdpipeError as error:
        again_s = error.again_s if isinstance(error, Busy) else None
        state.respond(party, RequestFailed(asked.request, error.kind, error.reason, again_s))
        return
    state.respond(party, planned)


def _check_under_way(state: State, party: str) -> None:
    """A search keeps the planner's thread for a while: raises `Busy` if it has enough of them."""
    most, under_way = state.options.party_previews, state.searches.previews
    of_user = state.options.user_parties * most
    if under_way[party] >= most or under_way[user_of(party)] >= of_user:
        raise Busy(
            f"{most} plans are being searched for this client already, or {of_user} for its user",
            PREVIEW_AGAIN_S,
        )


def _present(state: State, manifest: Manifest, exact: bool, want: Want) -> Plan | None:
    """The plan that the next run of these options would use as it is."""
    plan = state.plans.get((manifest.digest, exact))
    if plan is None or not plan.placements or plan.want.partitions != want.partitions:
        return None
    return plan if plan.fleet == state.devices.revision else None


def previewed(state: State, search: Search, found: PlanSearched) -> None:
    """Ranges were found, or what a run of these options would fail with now."""
    if not isinstance(search.about, Asked):
        return
    party, asked = search.about.party, search.about.request
    manifest = state.manifests.get(search.key[0])
    try:
        if found.ranges is None or manifest is None:
            kind, reason = found.kind or UnknownModel.kind, found.reason or "the model was removed"
            state.respond(party, RequestFailed(asked.request, kind, reason))
            return
        exact = search.key[1]
        ranges = best_ranges(state, manifest, exact, search, found.ranges)
        plan = draft(state, manifest, exact, search.want, ranges, found.shortlist)
        planned = _planned(state, plan, asked)
    except CrowdpipeError as error:
        state.respond(party, RequestFailed(asked.request, error.kind, error.reason))
        return
    state.respond(party, planned)


def _planned(state: State, plan: Plan, asked: RequestPlan) -> Planned:
    rows = tuple(_row(state, plan, placement) for placement in plan.placements)
    used = {row.device for row in rows}
    manifest, exact = plan.manifest, plan.key[1]
    placed = ranges_as_placed(plan)
    work = state.estimates.work(manifest, exact, items_of(asked.items))
    others = (device for device in state.devices if device.name not in used)
    listed = sorted(islice(others, LEFT_OUT_LIMIT), key=lambda each: each.name)
    fleet = offers_on(state, manifest, exact, placed)
    batch_s = estimated_s(manifest, fleet, placed, work)
    weighed = PlanWeighed(plan, fleet, work, batch_s)
    left_out = {device.name: _why_not(state, weighed, device) for device in listed}
    lone_device, lone_s = _lone(weighed)
    return Planned(
        request=asked.request,
        model=manifest.name,
        partitions=rows,
        left_out=left_out,
        items=work.items,
        batch_s=batch_s,
        lone_device=lone_device,
        lone_s=lone_s,
    )


def _lone(weighed: PlanWeighed) -> tuple[str, float]:
    """Whom of its devices the plan could leave all to, and what a batch would take there: several
    devices are no gain for a model that is small for each of them."""
    manifest, fleet = weighed.plan.manifest, Fleet(weighed.fleet)
    last = len(manifest.segments) - 1
    names = {offer.device for offer in fleet}
    alone = {
        name: estimated_s(manifest, fleet, [SegmentRange(0, last, device=name)], weighed.work)
        for name in (names if len(names) > 1 else ())
    }
    name = min(sorted(alone), key=alone.__getitem__, default="")
    return (name, alone[name]) if alone.get(name, inf) < inf else ("", 0.0)


def _row(state: State, plan: Plan, placement: Placement) -> PlannedPartition:
    part, choice = placement.partition, placement.choice
    device = state.devices.get(placement.likely)
    if choice is None or device is None:
        raise FleetTooSmall(
            f"no device can take segments {part.first} to {part.last} of '{plan.manifest.name}' now"
        )
    need: Sequence[int] = (resident_need(placement.segments), streamed_need(placement.segments))
    return PlannedPartition(
        first=part.first,
        last=part.last,
        device=choice.device,
        tier=choice.tier,
        streamed=choice.streamed,
        need_nbytes=need[choice.streamed],
        budget_nbytes=device.budget_nbytes,
        missing_nbytes=choice.missing_nbytes,
        boundary_nbytes=plan.manifest.cuts[part.cut].bound_nbytes,
        compute_s=compute_s(state, placement),
        reason=choice.reason,
        measured=len(_measured(state, plan, placement)),
    )


def _measured(state: State, plan: Plan, placement: Placement) -> list[int]:
    """Segments of it that some device has run."""
    known = state.estimates.of(plan.manifest, plan.key[1]).measured
    return [segment.index for segment in placement.segments if segment.index in known]


@dataclass(slots=True)
class PlanWeighed:
    """A plan with its devices' offers and what a batch takes; `left` devices are weighed against
    it, which takes a hundred estimates each."""

    plan: Plan
    fleet: Sequence[Offer]
    work: Work
    batch_s: float
    left: int = WEIGHED_LIMIT


def _why_not(state: State, weighed: PlanWeighed, device: Device) -> str:
    plan = weighed.plan
    life, manifest = device.life.state, plan.manifest
    said = {"lost": "it is offline", "draining": "it drains", "unproven": "it has not answered yet"}
    offer = capacity_of(device)
    if life in said:
        return said[life]
    if offer is None or not state.devices.fresh(device):
        return "it was not heard of lately"
    if not any(fits(manifest, i, i, offer) for i in range(len(manifest.segments))):
        return f"no segment fits it (its budget is {mebibytes(offer.budget_nbytes)})"
    if plan.want.partitions is not None:
        return f"{plan.want.partitions} partitions were asked for, and others are through sooner"
    if not weighed.left:
        return "others are through sooner"
    weighed.left -= 1
    on_model = offer_of(state, device, manifest, plan.key[1]) or offer
    return _slower(weighed, device.name, [*weighed.fleet, on_model])


def _slower(weighed: PlanWeighed, name: str, offers: Sequence[Offer]) -> str:
    """What a batch would take with this device in the plan, wherever it hinders least."""
    plan, work, without_s, fleet = weighed.plan, weighed.work, weighed.batch_s, Fleet(offers)
    ways = _ways_with(ranges_as_placed(plan), name)
    with_s = min(estimated_s(plan.manifest, fleet, ranges, work) for ranges in ways)
    if not without_s < with_s < float("inf"):
        return f"the batch is as fast without it: {work.items} items in {duration(without_s)}"
    return (
        f"it would make the batch slower: {work.items} items take about {duration(without_s)} "
        f"without it, {duration(with_s)} with it"
    )


def _ways_with(ranges: Sequence[SegmentRange], name: str) -> list[tuple[SegmentRange, ...]]:
    """The device in another's place, or taking a part of its segments off one end."""
    ways = []
    for at, each in enumerate(ranges):
        before, after = tuple(ranges[:at]), tuple(ranges[at + 1 :])
        ways.append((*before, replace(each, device=name), *after))
        for cut in range(each.first + 1, each.last + 1):
            head, tail = replace(each, last=cut - 1), replace(each, first=cut)
            ways.append((*before, replace(head, device=name), tail, *after))
            ways.append((*before, head, replace(tail, device=name), *after))
    return ways
