"""Items that may end the agents that run them: suspected, set aside, tried alone, and given up.

What a device ran when its agent ended is suspect. The first time changes nothing else: almost
always the phone has its own reasons. From the second on the item is set aside, and goes again when
nothing else of its plan is under way, or enough others have gone on meanwhile; one at a time. After
`SUSPECT_DEATHS` it is tried alone, and if its device ends once more, that is its outcome. A lost
connection may look like an end: it counts as one until the device is back under the same boot, but
what has not been proven by another boot gives nobody an error before `PROOF_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from orchestrator.machine.items.flight import leave_flight
from orchestrator.machine.items.outcomes import fail
from orchestrator.machine.records.instructions import ForgetDeath, StoreDeath
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from orchestrator.machine.records.suspicion import Death, Suspicion
from wire.errors import EndsDevice, TimedOut

NEVER = float("inf")
SUSPECT_DEATHS = 3  # after so many it is tried alone
MOST_DEATHS = 6  # proven ones: after so many it is not tried at all
PAUSE_S, PAUSE_MOST_S = 1.0, 30.0  # doubles with each death
OTHERS = 4  # so many others of its plan go on before it is tried among them
ALONE_OTHERS, ALONE_S = 16, 20.0  # and so many, for so long, before they wait for its trial
LONELY_S = 60.0  # others wait for one trial no longer than this
PROOF_S = 60.0  # a device that is not back then is taken to have ended
LOOK_S = 5.0
SUSPECTS = 64  # of one plan that are looked at together
Condition = Callable[[Item], bool]
SUSPECTABLE = ("stored", "admitted", "suspect")


def charge(state: State, item: Item, death: Death, *, proven: bool) -> None:
    """The boot ended, or seems to have, while it ran the item."""
    if item.state not in SUSPECTABLE:
        return
    suspicion = item.suspicion = item.suspicion or Suspicion()
    news = death not in suspicion.deaths
    if proven and not suspicion.deaths.get(death, False):
        state.emit(StoreDeath(item.run, item.index, *death))
    suspicion.deaths[death] = proven or suspicion.deaths.get(death, False)
    plan = state.plan_of(item)
    if news and plan is not None:
        alone = plan.trial is item and plan.lonely
        if alone and len(suspicion.deaths) > SUSPECT_DEATHS:
            suspicion.alone = death
        if len(suspicion.deaths) > 1:
            set_aside(state, plan, item)
    state.counts["deaths"] += news
    if _is_guilty(suspicion):
        _give_up(state, item)


def restore(item: Item, deaths: Iterable[Death]) -> None:
    """What the journal has. It goes on among others; its next death sets it aside."""
    known = dict.fromkeys(deaths, True)
    item.suspicion = Suspicion(known) if known else None


def _is_guilty(suspicion: Suspicion) -> bool:
    alone = suspicion.alone is not None and suspicion.deaths[suspicion.alone]
    return alone or suspicion.proven >= MOST_DEATHS


def _give_up(state: State, item: Item) -> None:
    suspicion = item.suspicion
    assert suspicion is not None
    reason = (
        f"item {item.index} ended the agent of its device {len(suspicion.deaths)} times, on "
        f"{suspicion.names()}: look there in the agent's and the system's log for a crash or a "
        "kill for lack of memory, and try a smaller input, more partitions or another device"
    )
    fail(state, item, EndsDevice.kind, reason)


def withdraw(state: State, item: Item, death: Death) -> None:
    """The boot goes on, or it ended over something else."""
    suspicion = item.suspicion
    was_proven = suspicion.deaths.pop(death, None) if suspicion is not None else None
    if suspicion is None or was_proven is None:
        return
    if was_proven:
        state.emit(ForgetDeath(item.run, item.index, *death))
    if suspicion.alone == death or len(suspicion.deaths) <= SUSPECT_DEATHS:
        suspicion.alone = None
    if not suspicion.deaths:
        item.suspicion = None
    if item.state == "suspect":
        if len(suspicion.deaths) > 1:
            state.agenda.look("item", item.key)
        else:
            _acquit(state, item)


def _acquit(state: State, item: Item) -> None:
    plan, run = state.plan_of(item), state.runs[item.run]
    if plan is not None:
        plan.suspects.pop(item.key, None)
    item.life.move("stored", state.now, "its device goes on")
    run.enqueue(item)


def set_aside(state: State, plan: Plan, item: Item) -> None:
    """Out of flight, and behind all others."""
    if item.state == "admitted":
        leave_flight(state, plan, item, "suspect", "its device ended")
    elif item.state == "stored":
        state.runs[item.run].dequeue(item.index)
        item.life.move("suspect", state.now, "its device ended")
    plan.suspects.pop(item.key, None)
    plan.suspects[item.key] = item
    item.begin_anew()
    suspicion = item.suspicion
    assert suspicion is not None
    suspicion.since, suspicion.others = state.now, plan.left_count
    state.agenda.look("item", item.key)


def check(state: State, item: Item) -> float:
    """An item that was set aside; when to look again."""
    suspicion, plan = item.suspicion, state.plan_of(item)
    assert suspicion is not None
    if state.connection is None:
        return state.now + LOOK_S
    if suspicion.alone is not None:
        until = max(suspicion.since, state.heard_at) + PROOF_S
        if state.now < until:
            return until
        _give_up(state, item)
        return NEVER
    moved_at = plan.moved_at if plan is not None else -NEVER
    limit_s = state.options.item_limit_s
    if state.now >= max(suspicion.since, moved_at, state.heard_at) + limit_s:
        what = f"item {item.index} waited {limit_s:.0f} s to be tried again"
        fail(state, item, TimedOut.kind, f"{what}; agents ended over it on {suspicion.names()}")
        return NEVER
    if plan is not None:
        plan.suspects.setdefault(item.key, item)
        state.agenda.look("admission", plan.key)
    due_at = _due_at(suspicion)
    return due_at if state.now < due_at else state.now + LOOK_S


def _due_at(suspicion: Suspicion) -> float:
    pause_s = PAUSE_S * 2.0 ** min(len(suspicion.deaths) - 2, 10)
    return suspicion.since + min(PAUSE_MOST_S, pause_s)


def _is_due(state: State, item: Item) -> bool:
    suspicion = item.suspicion
    return suspicion is not None and suspicion.alone is None and state.now >= _due_at(suspicion)


def next_to_try(state: State, plan: Plan, may_go: Condition) -> Item | None:
    """The suspect that is tried now; nobody while another is under way."""
    due = _due(state, plan, may_go)
    if not plan.in_flight:
        return next(iter(due), None)
    among = (item for item in due if not needs_to_be_alone(item))
    return next((item for item in among if _others(plan, item) >= OTHERS), None)


def _due(state: State, plan: Plan, may_go: Condition) -> list[Item]:
    if not plan.suspects or plan.trial is not None:
        return []
    some = islice(plan.suspects.values(), SUSPECTS)
    return [item for item in some if _is_due(state, item) and may_go(item)]


def needs_to_be_alone(item: Item) -> bool:
    """A barrier run's items pass in waves: what comes late goes by itself."""
    suspicion = item.suspicion
    return suspicion is not None and (item.barrier or len(suspicion.deaths) >= SUSPECT_DEATHS)


def begin_trial(state: State, plan: Plan, item: Item) -> None:
    """It goes now; others wait for it no longer than `LONELY_S`, if it is to be alone."""
    plan.try_again(item, lonely=needs_to_be_alone(item), now=state.now)
    if plan.lonely:
        state.agenda.look_at("admission", plan.key, state.now + LONELY_S)


def end_loneliness(state: State, plan: Plan) -> None:
    """A trial that takes long goes on among others."""
    if plan.lonely and state.now >= plan.tried_at + LONELY_S:
        plan.lonely = False


def keeps_others_out(state: State, plan: Plan, may_go: Condition) -> bool:
    """A suspect is tried alone, or has waited long enough for a moment in which it can be."""
    if plan.lonely:
        return True
    if plan.left_count - plan.last_lonely < ALONE_OTHERS:
        return False
    due = _due(state, plan, may_go)
    return any(_is_overdue(state, plan, item) for item in due if needs_to_be_alone(item))


def _is_overdue(state: State, plan: Plan, item: Item) -> bool:
    since = item.suspicion.since if item.suspicion is not None else NEVER
    return _others(plan, item) >= ALONE_OTHERS and state.now >= since + ALONE_S


def _others(plan: Plan, item: Item) -> int:
    return plan.left_count - item.suspicion.others if item.suspicion is not None else 0
