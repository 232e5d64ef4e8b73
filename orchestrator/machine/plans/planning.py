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

from orchestrator.machine.items.outcomes import drop_standins, fail_items, fail_plan
from orchestrator.machine.plans.absence import absent
from orchestrator.machine.plans.assigning import (
    NEVER,
    choose,
    offers,
    ranges_as_placed,
    spread_out,
    take,
)
from orchestrator.machine.records.placement import placement_of
from orchestrator.machine.records.plan import Plan, PlanKey, Want
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from orchestrator.planner.offers import SegmentRange
from orchestrator.planner.partitioning import estimated_s, partition
from orchestrator.planner.stages import BATCH
from wire.errors import (
    BlobCorrupt,
    BlobMissing,
    CrowdpipeError,
    FleetTooSmall,
    NoDevice,
    StoreUnreachable,
)
from wire.manifest import Manifest
from wire.messages.residency import Failure

SERVING = ("waiting", "fetching", "cached", "loading", "resident")
MENDED_AT_THE_DESK = frozenset({BlobMissing.kind, BlobCorrupt.kind, StoreUnreachable.kind})
STABLE_S = 5.0  # a changed fleet must last so long before a busy plan is retired for it
# At the beginning of runs, of which a client may begin many a second; it takes some 40 ms.
JUDGE_EVERY_S = 30.0
HORIZON = 200  # items that a plan is taken to serve: over these it must save what loading takes


def ensure(state: State, key: PlanKey) -> float:
    """A plan for the model if it has work; when to look again."""
    if state.connection is None:
        return NEVER
    if state.now < state.settle_until:
        return state.settle_until
    plan, leader = state.plans.get(key), state.runs.leader(key)
    if leader is None:
        if plan is not None:  # nobody waits for its devices
            _end_starving(state, plan)
        return NEVER
    if plan is None and key[0] in state.manifests:
        plan = Plan(key, state.manifests[key[0]], leader.want)
        state.plans.add(plan)
    return _ensure(state, plan, leader) if plan is not None else NEVER


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
    if _is_broken(state, plan) and plan.broken is not None:
        fail_plan(state, plan, plan.broken.kind, plan.broken.reason)
        return NEVER
    wake = state.devices.unsettled_until
    if wake <= state.now:
        wake = _judge(state, plan, leader)
    if plan.unplaceable:
        return min(wake, _starve(state, plan))
    _end_starving(state, plan)
    return wake


def _is_broken(state: State, plan: Plan) -> bool:
    """Everybody there refused it not long ago; one who did not changes that."""
    return state.now < plan.broken_until and _refusal(state, plan) is not None


def _judge(state: State, plan: Plan, leader: Run) -> float:
    """Keep the plan, retire it, or make another; when to judge again."""
    if not plan.placements:
        _renew(state, plan, leader)
        return NEVER
    if state.devices.revision != plan.fleet:
        plan.fleet, plan.fleet_since = state.devices.revision, state.now
        plan.judged = False
        _refresh(state, plan)
    elif not plan.in_flight and plan.unplaceable:
        choose(state, plan)  # another plan took its devices meanwhile
    elif not plan.in_flight and leader.run != plan.judged_for:
        plan.judged &= state.now < plan.judged_at + JUDGE_EVERY_S
    wake = _compare(state, plan, leader)
    renew = plan.retiring or plan.unplaceable or plan.want != leader.want
    if renew and not plan.in_flight:
        _renew(state, plan, leader)
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
    elif not plan.judged:
        plan.judged, plan.judged_for, plan.judged_at = True, leader.run, state.now
        plan.retiring = _worth_replacing(state, plan, leader)
        if not plan.retiring:
            spread_out(state, plan)
    return NEVER


def _refresh(state: State, plan: Plan) -> None:
    """Preliminary choices among the devices there are now."""
    if plan.unassigned:
        choose(state, plan)
    if plan.in_flight and plan.unplaceable:
        repartition(state, plan)


def compatible(plan: Plan, run: Run) -> bool:
    """Whether the plan is what the run asked for."""
    asked = run.options.partitions
    return asked is None or asked == len(plan.placements)


def _worth_replacing(state: State, plan: Plan, leader: Run) -> bool:
    """Whether a batch would be through so much sooner by another plan that loading it pays."""
    manifest, exact = plan.manifest, plan.key[1]
    fleet = offers(state, manifest, exact)
    work = state.estimates.work(manifest, exact, items_of(leader.count))
    try:
        fresh = draft(
            state,
            manifest,
            exact,
            plan.want,
            partition(manifest, fleet, plan.want.partitions, work),
        )
    except CrowdpipeError:
        return False  # what there is may still work; if it cannot be placed, starving tells
    now_s = estimated_s(manifest, fleet, ranges_as_placed(plan), work)
    then_s = estimated_s(manifest, fleet, ranges_as_placed(fresh), work)
    if not then_s < (1 - state.options.replan_gain) * now_s:
        return False
    readying_s = max(each.choice.ready_s for each in fresh.placements if each.choice is not None)
    return (now_s - then_s) / work.items * max(work.items, HORIZON) > readying_s


def draft(
    state: State, manifest: Manifest, exact: bool, want: Want, ranges: Sequence[SegmentRange]
) -> Plan:
    """A plan that is nobody's, with preliminary devices."""
    plan = Plan((manifest.digest, exact), manifest, want)
    overhead = state.options.frame_overhead_nbytes
    plan.put(placement_of(manifest, exact, each, overhead, state.now) for each in ranges)
    choose(state, plan)
    return plan


def _renew(state: State, plan: Plan, leader: Run) -> None:
    """Ranges for what is asked for and there now. Without a way to them, those before stay if
    they can still be used."""
    want = leader.want
    usable = compatible(plan, leader) and not plan.unplaceable
    if usable and not plan.retiring and plan.want.partitions == want.partitions:
        plan.want = want
        return
    try:
        ranges = best_ranges(state, plan.manifest, plan.key[1], want, items_of(leader.count))
    except (NoDevice, FleetTooSmall) as error:
        plan.starved_of = (error.kind, error.reason)
        ranges = ranges_of(plan) if usable else ()
    plan.want, plan.retiring = want, False
    if ranges != ranges_of(plan):
        install(state, plan, ranges)


def best_ranges(
    state: State, manifest: Manifest, exact: bool, want: Want, items: int
) -> tuple[SegmentRange, ...]:
    """The planner's ranges, unless those that the devices already serve are about as good."""
    fleet, work = offers(state, manifest, exact), state.estimates.work(manifest, exact, items)
    fresh = partition(manifest, fleet, want.partitions, work)
    served = _served_ranges(state, manifest, exact)
    if served is None or (want.partitions is not None and len(served) != want.partitions):
        return fresh
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
    return next(_tilings(held, 0, len(manifest.segments), frozenset()), None)


def _tilings(
    held: dict[int, list[tuple[int, str, bool]]], first: int, end: int, used: frozenset[str]
) -> Iterator[tuple[SegmentRange, ...]]:
    if first == end:
        yield ()
        return
    for last, device, streamed in held.get(first, ()):
        if device not in used and last < end:
            for rest in _tilings(held, last + 1, end, used | {device}):
                yield (SegmentRange(first, last, streamed, device), *rest)


def install(state: State, plan: Plan, ranges: Sequence[SegmentRange]) -> None:
    """Put these ranges in the place of those before; items in flight go on by recovery."""
    for placement in plan.placements:
        take(state, plan, placement, "its plan was replaced")
    for item in plan.in_flight.values():
        drop_standins(plan, item)
        item.detours.clear()
        item.opened.clear()
    overhead = state.options.frame_overhead_nbytes
    plan.put(placement_of(plan.manifest, plan.key[1], each, overhead, state.now) for each in ranges)
    plan.fleet, plan.fleet_since = state.devices.revision, state.now
    plan.retiring, plan.judged = False, True
    choose(state, plan)


def repartition(state: State, plan: Plan) -> bool:
    """Other ranges under way, because one has no device left; whether that helps."""
    manifest, exact = plan.manifest, plan.key[1]
    fleet = offers(state, manifest, exact)
    try:
        ranges = partition(
            manifest, fleet, plan.want.partitions, state.estimates.work(manifest, exact)
        )
    except CrowdpipeError as error:
        plan.starved_of = (error.kind, error.reason)
        return False
    if _spans(ranges) == _spans(ranges_of(plan)):
        return False
    install(state, plan, ranges)
    return not plan.unplaceable


def ranges_of(plan: Plan) -> tuple[SegmentRange, ...]:
    return tuple(
        SegmentRange(each.partition.first, each.partition.last, each.streamed, each.meant)
        for each in plan.placements
    )


def _spans(ranges: Sequence[SegmentRange]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in ranges]


def _starve(state: State, plan: Plan) -> float:
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
    until = since + state.options.no_device_s
    if state.now < until:
        return until
    return _fail_starved(state, plan, since)


def _fail_starved(state: State, plan: Plan, since: float) -> float:
    """End what waited so long itself, and leave the rest its time; until when."""
    kind, reason = plan.starved_of or (NoDevice.kind, _nobody(plan))
    limit_s, wake = state.options.no_device_s, NEVER
    for run in state.runs.working(plan.key):
        until = max(since, min(item.life.since for item in run.items.values())) + limit_s
        if state.now < until:
            wake = min(wake, until)
        else:
            fail_items(state, run, kind, f"waited {limit_s:.0f} s: {reason}{absent(state)}")
    if wake == NEVER:
        _end_starving(state, plan)
    return wake


def _end_starving(state: State, plan: Plan) -> None:
    if plan.starved_since is not None:
        for run in state.runs.working(plan.key):
            run.touch()
    plan.starved_since, plan.starved_of = None, None


def _refusal(state: State, plan: Plan) -> Failure | None:
    """What every device that could serve a range failed it with."""
    for placement in plan.placements:
        if placement.likely is None:
            failure = None
            for device in state.devices.usable.values():
                refusal = device.refused.get(placement.partition)
                if refusal is None or refusal.until <= state.now:
                    break
                failure = refusal.failure
            else:
                if failure is not None:
                    return failure
    return None


def break_plan(state: State, plan: Plan, failure: Failure) -> None:
    """Nobody can serve it: its items end with what the devices said, new ones for a while too."""
    plan.broken, plan.broken_until = failure, state.now + state.options.refuse_s
    _end_starving(state, plan)
    fail_plan(state, plan, failure.kind, failure.reason)


def try_again(state: State, key: PlanKey) -> None:
    """A new run may follow a repair that no device can see: what devices failed with for lack of
    the store's bytes is forgotten, once for each run, and only while nothing is in flight."""
    plan = state.plans.get(key)
    if plan is None or plan.in_flight:
        return
    if plan.broken is not None and plan.broken.kind in MENDED_AT_THE_DESK:
        plan.broken_until = float("-inf")
    for device in list(state.devices.refusing.values()):
        for part, refusal in list(device.refused.items()):
            ours = (part.model, part.exact) == key
            if ours and refusal.failure.kind in MENDED_AT_THE_DESK:
                device.forgive(part)


def _nobody(plan: Plan) -> str:
    homeless = [each.partition for each in plan.placements if each.likely is None]
    what = f" for segments {homeless[0].first} to {homeless[0].last}" if homeless else ""
    return f"no device is there{what}: start an agent with `crowdpipe agent`"
