"""Moves ranges off a device that serves several of them, to one that serves none."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.machine.plans import moves
from orchestrator.machine.plans.assigning import (
    MUST_EVICT_TIER,
    assign,
    candidates,
    choose,
    offers_on,
    ranges_as_placed,
    take,
)
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from orchestrator.planner.partitioning import estimated_s
from orchestrator.planner.ranking import rank


def spread_out(state: State, plan: Plan) -> None:
    """Move ranges off a device that serves several of them to one that serves none: it keeps one
    resident, and would load one after the other for every item. A device that would have to evict
    another model's partition for it is left alone."""
    for placement in _crowded(plan):
        others = candidates(state, plan, placement, set(plan.devices()))
        ranked = rank(others, plan.want.policy, state.options.cached_share)
        ranked = [each for each in ranked if _helps(state, plan, placement, each.device)]
        if ranked and ranked[0].tier < MUST_EVICT_TIER:
            before = placement.device or ""
            take(state, plan, placement, f"{ranked[0].device} can keep it resident")
            moves.vacate(state, plan, before, [placement], f"{ranked[0].device} came")
            if plan.in_flight:
                assign(state, plan, placement, "a device of its own came")
            else:
                choose(state, plan)


def _helps(state: State, plan: Plan, placement: Placement, name: str) -> bool:
    """Whether a batch is through sooner with this range on that device."""
    manifest, exact = plan.manifest, plan.key[1]
    work = state.estimates.work(manifest, exact)
    before = ranges_as_placed(plan)
    at = plan.placements.index(placement)
    after = (*before[:at], replace(before[at], device=name), *before[at + 1 :])
    fleet = offers_on(state, manifest, exact, (*before, *after))
    return estimated_s(manifest, fleet, after, work) < estimated_s(manifest, fleet, before, work)


def _crowded(plan: Plan) -> list[Placement]:
    """Assigned placements beyond the first on each device."""
    seen: set[str] = set()
    crowded = []
    for placement in plan.placements:
        if placement.device in seen:
            crowded.append(placement)
        elif placement.device is not None:
            seen.add(placement.device)
    return crowded
