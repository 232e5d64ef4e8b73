"""Asks for ranges. The search runs in another thread: a large fleet takes seconds, and nothing else
waits for it. What follows from its answer is `planning`'s.
"""

from __future__ import annotations

from orchestrator.machine.records.events import PlanSearched
from orchestrator.machine.records.instructions import SearchPlan
from orchestrator.machine.records.plan import Plan, PlanKey, Want
from orchestrator.machine.records.search import Asked, Failed, Purpose, Search
from orchestrator.machine.records.state import State
from orchestrator.planner.question import Question
from wire.errors import TimedOut
from wire.manifest import Manifest

LIMIT_S = 60.0  # a search that was not answered by then never will be: it is asked for again
CLIENTS_LIMIT = 64  # searches at once, beyond which clients are asked to come again
NEVER = float("inf")


def seek(
    state: State,
    plan: Plan,
    purpose: Purpose,
    want: Want,
    items: int,
    failed: Failed | None = None,
) -> None:
    """Ask for the plan's sake, unless that is under way or would be refused as it just was."""
    if plan.search is not None:
        return
    sought = (state.devices.revision, want.partitions)
    if plan.refused is not None and plan.refused[0] == sought:
        plan.starved_of = plan.refused[1]
        return
    plan.sought = sought
    plan.search = ask(state, purpose, plan.manifest, plan.key[1], want, items, failed)


def ask(
    state: State,
    purpose: Purpose,
    manifest: Manifest,
    exact: bool,
    want: Want,
    items: int,
    about: Failed | Asked | str | None = None,
) -> int:
    """The number under which it is answered. A submit hopes for devices that have yet to prove
    life; a preview and a submit are refused while too many wait."""
    if purpose in ("preview", "submit") and len(state.searches) >= CLIENTS_LIMIT:
        raise TimedOut(f"{CLIENTS_LIMIT} plans are being searched for already; try again later")
    number, key = state.searches.next_number(), (manifest.digest, exact)
    state.searches.begin(Search(number, purpose, key, want, items, about))
    state.agenda.look_at("search", number, state.now + LIMIT_S)
    state.emit(SearchPlan(number, _question(state, purpose, manifest, exact, want, items)))
    return number


def _question(
    state: State, purpose: Purpose, manifest: Manifest, exact: bool, want: Want, items: int
) -> Question:
    hopeful = purpose == "submit"
    return Question(
        manifest=manifest,
        fleet=state.devices.facts(hopeful=hopeful),
        rates=state.estimates.rates(manifest, exact),
        wanted=want.partitions,
        work=state.estimates.work(manifest, exact, items),
        loaded=frozenset(device.name for device in state.devices.holders((manifest.digest, exact))),
        only_whether=hopeful,
    )


def check(state: State, number: int) -> float:
    """It was never answered: whoever waits for it asks again."""
    search = state.searches.end(number)
    if search is None:
        return NEVER
    state.counts["search_unanswered"] += 1
    plan = state.plans.get(search.key)
    if plan is not None and plan.search == number:
        plan.search = None
        plan.judged = False
        state.agenda.look("plan", search.key)
    return NEVER


def note_answer(state: State, plan: Plan, search: Search, found: PlanSearched) -> None:
    """What cannot be had is not sought again before the fleet or the wish changes."""
    if found.ranges is not None:
        plan.shortlist, plan.refused = found.shortlist, None
    elif search.purpose != "compare":
        why = (found.kind, found.reason)
        plan.refused, plan.starved_of = (plan.sought, why), why
        for run in state.runs.working(plan.key):
            run.touch()


def plan_of(state: State, search: Search) -> Plan | None:
    """The plan that waits for this answer; None if it went, or asked anew."""
    key: PlanKey = search.key
    plan = state.plans.get(key)
    if plan is None or plan.search != search.number:
        state.counts["stale_search"] += 1
        return None
    plan.search = None
    return plan
