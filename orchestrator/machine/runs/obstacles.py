"""What keeps a run from going on, as the error that it would end with: its client is told, and
whoever watches.

An ordered list of questions; the first that has an answer gives it. Ordinary work is no obstacle,
and neither is what passes in a moment. The sentences name no durations: they are told once, and
again only when something else is in the way.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from orchestrator.machine.items import recovery
from orchestrator.machine.plans.absence import absent
from orchestrator.machine.plans.starving import nobody
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.run import Obstacle, Run
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import admission
from wire.errors import NoDevice, StoreUnreachable, TimedOut
from wire.messages.requests import RunWaits

NEVER = float("inf")
LOOK_S, LOOK_MOST_S = 1.0, 10.0
LOOK_SHARE = 0.1  # of the time without news: what lasts is looked at ever less often
MOMENT_S = 1.0  # a plan without devices is said after this: they may be about to answer
OLDEST = 8  # items in flight that are asked for signs of life: those behind wait for them
LONG_S = 15.0  # without any news, what was begun counts as stuck


def look(state: State, name: str) -> float:
    """Tell what is new about a run with work; when to look again."""
    run = state.runs.get(name)
    if run is None or state.connection is None or not run.attended:
        return NEVER
    if not (run.items or run.obstacle):
        return NEVER
    if state.now < run.looked_at + LOOK_S:
        return run.looked_at + LOOK_S
    run.looked_at = state.now
    _tell_change(state, run, obstacle_of(state, run))
    return state.now + min(LOOK_MOST_S, max(LOOK_S, LOOK_SHARE * _quiet_s(state, run)))


def _quiet_s(state: State, run: Run) -> float:
    """Since the last news of it, or of its plan's devices."""
    plan = state.plans.get(run.plan_key)
    starved_since = plan.starved_since if plan is not None else None
    times = (run.news_at, run.moved_at, run.life.since, state.heard_at, starved_since or -NEVER)
    return state.now - max(times)


def _tell_change(state: State, run: Run, found: Obstacle | None) -> None:
    if found != run.obstacle:
        run.obstacle = found
        run.show()
        tell(state, run)


def tell(state: State, run: Run) -> None:
    """Say to its client what is in its way, or that nothing is."""
    if run.unread:
        return
    kind, reason = run.obstacle or (None, "")
    state.respond(run.party, RunWaits(run.run, kind, reason))


def obstacle_of(state: State, run: Run) -> Obstacle | None:
    """Kind and reason; None if the run goes on, or has nothing to do."""
    plan = state.plans.get(run.plan_key)
    found = (question(state, run, plan) for question in QUESTIONS if run.items)
    return next((each for each in found if each is not None), None)


def no_model(state: State, run: Run, plan: Plan | None) -> Obstacle | None:
    if run.model in state.manifests or state.now < run.life.since + MOMENT_S:
        return None
    reason = (
        f"the model store has not told of '{run.model_name}' since the orchestrator started: "
        "look whether the store runs"
    )
    return StoreUnreachable.kind, reason


def no_device(state: State, run: Run, plan: Plan | None) -> Obstacle | None:
    if plan is None or plan.starved_since is None:
        return None
    if state.now < plan.starved_since + MOMENT_S:
        return None
    kind, reason = plan.starved_of or (NoDevice.kind, nobody(plan))
    return kind, f"{reason}{absent(state)}"


def no_bytes(state: State, run: Run, plan: Plan | None) -> Obstacle | None:
    """A device fetches, and nothing comes."""
    stuck = _stuck(state, run, plan)
    if stuck is None or stuck[1].life.state != "fetching":
        return None
    device, part = stuck[0].name, stuck[1].partition
    base = state.store_base
    where = f" at {base}" if base and not base.startswith("http://:") else ""
    reason = (
        f"{device} waits for the model store to send segments {part.first} to {part.last}, and "
        f"gets nothing: look whether the store runs and answers{where}, and whether {device} "
        "reaches it"
    )
    return StoreUnreachable.kind, reason


def no_partition(state: State, run: Run, plan: Plan | None) -> Obstacle | None:
    """A device was told to serve, and does not come so far."""
    stuck = _stuck(state, run, plan)
    if stuck is None or stuck[1].life.state == "resident":
        return None
    device, part = stuck[0].name, stuck[1].partition
    what = "take" if stuck[1].life.state == "assigned" else "load"
    return TimedOut.kind, f"it waits for {device} to {what} segments {part.first} to {part.last}"


def _stuck(state: State, run: Run, plan: Plan | None) -> tuple[Device, Placement] | None:
    """Where the run's oldest item in flight waits, if nothing was heard from there for long."""
    oldest = next(iter(run.in_flight.values()), None)
    placement = recovery.waits_at(plan, oldest) if plan is not None and oldest else None
    device = state.devices.get(placement.device) if placement is not None else None
    if placement is None or device is None:
        return None
    news_at = max(placement.life.since, device.progress_at, state.heard_at)
    return (device, placement) if state.now >= news_at + LONG_S else None


def no_news(state: State, run: Run, plan: Plan | None) -> Obstacle | None:
    """The item that was admitted first is somewhere, and nothing is heard of it."""
    mine = list(islice(run.in_flight.values(), OLDEST))
    if plan is None or not mine:
        return None
    heard_at = max(recovery.last_sign(state, plan, item) for item in mine)
    limit_s = max(LONG_S, recovery.stall_s(state, plan))
    if state.now < max(heard_at, state.heard_at) + limit_s:
        return None
    return TimedOut.kind, recovery.waits_for(plan, mine[0])


def no_room(state: State, run: Run, plan: Plan | None) -> Obstacle | None:
    """Nothing of it is admitted, though its plan stands."""
    if plan is None or not run.waiting or plan.starved_since is not None:
        return None
    if run.in_flight:
        return None
    since = run.items[run.waiting[0]].life.since
    if state.now < max(since, run.moved_at, state.heard_at) + LONG_S:
        return None
    return TimedOut.kind, f"no item of it can start: {admission.why_not(state, plan, run)}"


QUESTIONS: tuple[Callable[[State, Run, Plan | None], Obstacle | None], ...] = (
    no_model,
    no_device,
    no_bytes,
    no_partition,
    no_news,
    no_room,
)
