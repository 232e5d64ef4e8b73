"""What a search for ranges found, for whoever asked."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.machine.plans import planning, previews, searching
from orchestrator.machine.records.events import PlanSearched
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.search import Purpose, Search
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import requests
from wire.errors import TimedOut

NEVER = float("inf")
UNANSWERED = "no plan was found in time; try again later"


def answered(state: State, event: PlanSearched) -> None:
    search = state.searches.end(event.number)
    if search is None:
        state.counts["stale_search"] += 1
        return
    state.agenda.forget("search", search.number)
    if search.purpose in FOR_CLIENTS:
        FOR_CLIENTS[search.purpose](state, search, event)
        return
    plan = searching.plan_of(state, search)
    if plan is not None:
        searching.note_answer(state, plan, search, event)
        FOR_PLANS[search.purpose](state, plan, search, event)
        state.agenda.look("plan", plan.key)
        state.agenda.look("moves", plan.key)


def expired(state: State, number: int) -> float:
    """It was never answered: a client may ask again, and a plan does."""
    if number in state.searches:
        state.counts["search_unanswered"] += 1
        answered(state, PlanSearched(number, None, TimedOut.kind, UNANSWERED))
    return NEVER


FOR_CLIENTS: dict[Purpose, Callable[[State, Search, PlanSearched], None]] = {
    "preview": previews.previewed,
    "submit": requests.searched,
}
FOR_PLANS: dict[Purpose, Callable[[State, Plan, Search, PlanSearched], None]] = {
    "renew": planning.renewed,
    "compare": planning.compared,
    "repartition": planning.repartitioned,
}
