"""Answers who would serve a model, and why, without changing anything."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.machine.assigning import choose, compute_s, offer_of, offers
from orchestrator.machine.devices import Device
from orchestrator.machine.models import model_named
from orchestrator.machine.partitioning import check_wanted, fits, megabytes
from orchestrator.machine.placement import check_policy
from orchestrator.machine.planning import best_ranges, ranges_of
from orchestrator.machine.plans import Placement, Plan, Want, placement_of
from orchestrator.machine.state import State
from wire.errors import CrowdpipeError, FleetTooSmall
from wire.manifest import Manifest
from wire.memory import resident_need, streamed_need
from wire.messages.requests import Planned, PlannedPartition, RequestFailed, RequestPlan


def answer(state: State, party: str, asked: RequestPlan) -> None:
    try:
        planned = preview(state, asked)
    except CrowdpipeError as error:
        state.respond(party, RequestFailed(asked.request, error.kind, error.reason))
        return
    state.respond(party, planned)


def preview(state: State, asked: RequestPlan) -> Planned:
    """Raises what a run of these options would fail with now."""
    manifest = model_named(state, asked.model)
    check_policy(asked.options.policy)
    check_wanted(manifest, asked.options.partitions)
    plan = _draft(state, manifest, asked)
    rows = tuple(_row(state, plan, placement) for placement in plan.placements)
    used = {row.device for row in rows}
    left_out = {
        device.name: _why_not(state, manifest, device, len(rows))
        for device in sorted(state.devices, key=lambda each: each.name)
        if device.name not in used
    }
    return Planned(asked.request, manifest.name, rows, left_out)


def _draft(state: State, manifest: Manifest, asked: RequestPlan) -> Plan:
    """A plan that is nobody's, made as the next run's would be."""
    exact, want = asked.options.exact, Want(asked.options.partitions, asked.options.policy)
    fleet = offers(state)
    present = state.plans.get((manifest.digest, exact))
    names = frozenset(offer.device for offer in fleet)
    if (
        present is not None
        and present.placements
        and present.want.partitions == want.partitions
        and (present.fleet == names)
    ):
        ranges = ranges_of(present)
    else:
        ranges = best_ranges(state, manifest, exact, want, fleet)
    overhead = state.options.frame_overhead_nbytes
    draft = Plan((manifest.digest, exact), manifest, want)
    draft.placements = [placement_of(manifest, exact, each, overhead, state.now) for each in ranges]
    choose(state, draft)
    return draft


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
    )


def _why_not(state: State, manifest: Manifest, device: Device, rows: int) -> str:
    life = device.life.state
    said = {"lost": "it is offline", "draining": "it drains", "unproven": "it has not answered yet"}
    offer = offer_of(state, device)
    if life in said:
        return said[life]
    if offer is None or not state.fresh(device):
        return "it was not heard of lately"
    if not any(fits(manifest, i, i, offer) for i in range(len(manifest.segments))):
        return f"no segment fits it (its budget is {megabytes(offer.budget_nbytes)})"
    return f"{rows} partitions are placed better"
