"""Makes plans, keeps them while they are good, and replaces them between items.

A plan stays as long as its devices live and fit, so that the next run finds it resident. It is
judged anew when the set of usable devices or what is asked for changed, and by what was measured
meanwhile when another run begins. It is replaced when a batch would be through `replan_gain`
sooner and loading what that takes pays, or the old cannot be placed any more. With
items in flight nothing is admitted until the last has ended, and then it is replaced; only when a
range has no device left are the ranges changed under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.machine.items.outcomes import drop_standins, fail_plan
from orchestrator.machine.plans import moves, searching
from orchestrator.machine.plans.assigning import (
    choose,
    offers_on,
    ranges_as_placed,
    take,
)
from orchestrator.machine.plans.spreading import spread_out
from orchestrator.machine.plans.starving import end_starving, give_up, is_broken, starve
from orchestrator.machine.records.events import PlanSearched
from orchestrator.machine.records.placement import placement_of
from orchestrator.machine.records.plan import Plan, PlanKey, Want
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.search import Failed, Search
from orchestrator.machine.records.state import State
from orchestrator.planner.offers import SegmentRange
from orchestrator.planner.partitioning import estimated_s
from orchestrator.planner.stages import BATCH
from wire.manifest import Manifest

NEVER = float("inf")
SERVING = ("waiting", "fetching", "cached", "loading", "resident")
STABLE_S = 5.0  # a changed fleet must last so long before a busy plan is retired for it
JUDGE_EVERY_S = 30.0  # at the beginning of runs, of which a client may begin many a second
TILING_STEPS = 1000
HORIZON = 200  # items that an idle plan is taken to serve, and a run that does not say how many


def ensure(state: State, key: PlanKey) -> float:
    """A plan for the model if it has work; when to look again."""
    if state.connection is None:
        return NEVER
    if state.now < state.settling.until:
        return state.settling.until
    plan, leader = state.plans.get(key), state.runs.leader(key)
    if leader is None:
        if plan is not None:  # nobody waits for its devices
            end_starving(state, plan)
            plan.vacated.clear()
        return NEVER
    if plan is None and key[0] in state.manifests:
        plan = Plan(key, state.manifests[key[0]], leader.want)
        state.plans.add(plan)
    if plan is None:
        return NEVER
    wake = _ensure(state, plan, leader)
    state.agenda.look("admission", key)  # what kept items out may be over: it retires no more
    return wake


def device_came_or_went(state: State, name: str) -> float:
    """Plans that use the device, or wait for one, are looked at."""
    keys = [plan.key for plan in state.plans.on(name)]
    if name in state.devices.usable:
        keys += state.plans.unplaceable
    for key in dict.fromkeys(keys):
        state.agenda.look("plan", key)
        state.agenda.look("admission", key)
    return NEVER


def _ensure(state: State, plan: Plan, leader: Run) -> float:
    if is_broken(state, plan) and plan.broken is not None:
        fail_plan(state, plan, plan.broken.kind, plan.broken.reason)
        return NEVER
    wake = state.devices.unsettled_until
    if wake <= state.now:
        wake = _judge(state, plan, leader)
    if plan.unplaceable:
        return min(wake, starve(state, plan))
    end_starving(state, plan)
    return wake


def _judge(state: State, plan: Plan, leader: Run) -> float:
    """Keep the plan, retire it, or make another; when to judge again."""
    if not plan.placements:
        _renew(state, plan, leader)
        return NEVER
    if state.devices.revision != plan.fleet:
        plan.fleet, plan.fleet_since = state.devices.revision, state.now
        plan.judged = False
        choose(state, plan)
    elif plan.unplaceable:
        choose(state, plan)  # another plan took its devices meanwhile
    elif not plan.in_flight and leader.run != plan.judged_for:
        plan.judged &= state.now < plan.judged_at + JUDGE_EVERY_S
    wake = _compare(state, plan, leader)
    renew = plan.retiring or plan.unplaceable or plan.want != leader.want
    if renew and not plan.in_flight:
        _renew(state, plan, leader)
    elif plan.unplaceable:
        repartition(state, plan)
    return wake


def items_of(count: int | None) -> int:
    """Items to plan for. One alone is taken to be the first of many: a plan stays."""
    return BATCH if count is None or count <= 1 else count


def _compare(state: State, plan: Plan, leader: Run) -> float:
    """Once per change of the fleet, or per run: whether another plan would be so much better."""
    stable_at = plan.fleet_since + STABLE_S if plan.in_flight else state.now
    if not compatible(plan, leader):
        plan.retiring = True
    elif not plan.judged and state.now < stable_at:
        return stable_at
    elif not plan.judged and plan.search is None:
        plan.judged, plan.judged_for, plan.judged_at = True, leader.run, state.now
        searching.seek(state, plan, "compare", plan.want, items_of(leader.count))
    return NEVER


def compared(state: State, plan: Plan, search: Search, found: PlanSearched) -> None:
    """Retire the plan if what was found is so much better, or spread it out as it is."""
    if found.ranges is None or not plan.placements:
        return  # what there is may still work; if it cannot be placed, starving tells
    plan.retiring = _worth_replacing(state, plan, found.ranges, search.items)
    if not plan.retiring:
        spread_out(state, plan)


def compatible(plan: Plan, run: Run) -> bool:
    """Whether the plan is what the run asked for."""
    asked = run.options.partitions
    return asked is None or asked == len(plan.placements)


def _worth_replacing(state: State, plan: Plan, ranges: Sequence[SegmentRange], items: int) -> bool:
    """Whether a batch would be through so much sooner by these ranges that loading them pays."""
    manifest, exact = plan.manifest, plan.key[1]
    work = state.estimates.work(manifest, exact, items)
    fresh = draft(state, manifest, exact, plan.want, ranges, plan.shortlist)
    before, after = ranges_as_placed(plan), ranges_as_placed(fresh)
    now_s = estimated_s(manifest, offers_on(state, manifest, exact, before), before, work)
    then_s = estimated_s(manifest, offers_on(state, manifest, exact, after), after, work)
    if not then_s < (1 - state.options.replan_gain) * now_s:
        return False
    readying_s = max(each.choice.ready_s for each in fresh.placements if each.choice is not None)
    return (now_s - then_s) / work.items * items_ahead(state, plan, items) > readying_s


def items_ahead(state: State, plan: Plan, items: int) -> int:
    """Over how many a new plan has to save what loading it takes: those that are known to come,
    where it would be loaded while they wait."""
    if not plan.in_flight:
        return max(items, HORIZON)
    return sum(
        HORIZON if run.count is None else min(HORIZON, run.count - len(run.ended))
        for run in state.runs.working(plan.key)
    )


def draft(
    state: State,
    manifest: Manifest,
    exact: bool,
    want: Want,
    ranges: Sequence[SegmentRange],
    shortlist: tuple[str, ...],
) -> Plan:
    """A plan that is nobody's, with preliminary devices."""
    plan = Plan((manifest.digest, exact), manifest, want, shortlist=shortlist)
    overhead = state.options.frame_overhead_nbytes
    plan.put(
        placement_of(manifest, exact, each, overhead, state.now, state.cause) for each in ranges
    )
    choose(state, plan)
    return plan


def _renew(state: State, plan: Plan, leader: Run) -> None:
    """Have ranges found for what is asked for and there now, unless those that stand will do."""
    want = leader.want
    usable = compatible(plan, leader) and not plan.unplaceable
    if usable and not plan.retiring and plan.want.partitions == want.partitions:
        plan.want = want
    elif not searching.seek(state, plan, "renew", want, items_of(leader.count)) and usable:
        plan.want, plan.retiring = want, False  # there is no way to another


def renewed(state: State, plan: Plan, search: Search, found: PlanSearched) -> None:
    """Without a way to what is asked for, the ranges before stay if they can still be used."""
    leader = state.runs.leader(plan.key)
    if leader is None or plan.in_flight:
        plan.retiring = False  # who wanted another has gone
        return
    ranges: tuple[SegmentRange, ...] = ()
    if found.ranges is not None:
        ranges = best_ranges(state, plan.manifest, plan.key[1], search, found.ranges)
    elif compatible(plan, leader) and not plan.unplaceable:
        ranges = ranges_of(plan)
    plan.want, plan.retiring = search.want, False
    if ranges != ranges_of(plan):
        install(state, plan, ranges)
    _note_useless(state, plan, found)


def _note_useless(state: State, plan: Plan, found: PlanSearched) -> None:
    """Ranges were found that devices refuse or cannot take now: the same would be found again."""
    if found.ranges is not None and plan.unplaceable:
        searching.refuse(state, plan, None)


def best_ranges(
    state: State,
    manifest: Manifest,
    exact: bool,
    search: Search,
    fresh: tuple[SegmentRange, ...],
) -> tuple[SegmentRange, ...]:
    """The planner's ranges, unless those that the devices already serve are about as good."""
    work = state.estimates.work(manifest, exact, search.items)
    served, wanted = _served_ranges(state, manifest, exact), search.want.partitions
    if served is None or (wanted is not None and len(served) != wanted):
        return fresh
    fleet = offers_on(state, manifest, exact, (*served, *fresh))
    limit = (1 - state.options.replan_gain) * estimated_s(manifest, fleet, served, work)
    return fresh if estimated_s(manifest, fleet, fresh, work) < limit else served


def _served_ranges(
    state: State, manifest: Manifest, exact: bool
) -> tuple[SegmentRange, ...] | None:
    """Ranges that cover the model, each reported by a device of its own: an earlier
    orchestrator's plan, or what is left of ours."""
    held: dict[int, list[tuple[int, str, bool]]] = {}
    mode = (manifest.digest, exact)
    for device in sorted(state.devices.holders(mode), key=lambda each: each.name):
        for part, entry in device.residency.items() if state.usable(device) else ():
            if (part.model, part.exact) == mode and entry.status in SERVING:
                entries = held.setdefault(part.first, [])
                entries.append((part.last, device.name, entry.streamed))
    steps = iter(range(TILING_STEPS))
    return next(_tilings(held, 0, len(manifest.segments), frozenset(), steps), None)


def _tilings(
    held: dict[int, list[tuple[int, str, bool]]],
    first: int,
    end: int,
    used: frozenset[str],
    steps: Iterator[int],
) -> Iterator[tuple[SegmentRange, ...]]:
    """Until there are no steps left: many devices may report ranges that lead nowhere."""
    if first == end:
        yield ()
        return
    for last, device, streamed in held.get(first, ()):
        if device not in used and last < end and next(steps, None) is not None:
            for rest in _tilings(held, last + 1, end, used | {device}, steps):
                yield (SegmentRange(first, last, streamed, device), *rest)


def install(state: State, plan: Plan, ranges: Sequence[SegmentRange]) -> None:
    """Put these ranges in the place of those before; items in flight go on by recovery."""
    before = len(plan.placements)
    for placement in plan.placements:
        take(state, plan, placement, "its plan was replaced")
    for item in plan.in_flight.values():
        drop_standins(plan, item)
        item.drop_detours()
        item.opened.clear()
    overhead = state.options.frame_overhead_nbytes
    plan.put(
        placement_of(plan.manifest, plan.key[1], each, overhead, state.now, state.cause)
        for each in ranges
    )
    plan.fleet, plan.fleet_since = state.devices.revision, state.now
    plan.retiring, plan.judged = False, True
    choose(state, plan)
    moves.tell_recut(state, plan, before)


def repartition(state: State, plan: Plan, failed: Failed | None = None) -> None:
    """Have other ranges found under way, because one has no device left. `failed` is given up if
    that does not help."""
    searching.seek(state, plan, "repartition", plan.want, BATCH, failed)


def repartitioned(state: State, plan: Plan, search: Search, found: PlanSearched) -> None:
    if not plan.unplaceable or not plan.in_flight:
        return  # a device came meanwhile, or nobody needs it any more
    if found.ranges is not None and _spans(found.ranges) != _spans(ranges_of(plan)):
        install(state, plan, found.ranges)
    _note_useless(state, plan, found)
    if plan.unplaceable and isinstance(search.about, Failed):
        failed = search.about
        give_up(state, plan, failed.partition, failed.device, failed.failure)


def ranges_of(plan: Plan) -> tuple[SegmentRange, ...]:
    return tuple(
        SegmentRange(each.partition.first, each.partition.last, each.streamed, each.meant)
        for each in plan.placements
    )


def _spans(ranges: Sequence[SegmentRange]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in ranges]
