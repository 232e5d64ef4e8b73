"""Asks for ranges. The search runs in another thread: a large fleet takes seconds, and nothing else
waits for it. What follows from its answer is `planning`'s.
"""

from __future__ import annotations

from orchestrator.machine.records.events import PlanSearched
from orchestrator.machine.records.instructions import SearchPlan
from orchestrator.machine.records.plan import Plan, PlanKey, Want
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.search import About, Failed, Hopefuls, Purpose, Search
from orchestrator.machine.records.state import State
from orchestrator.planner.question import Question
from wire.errors import TimedOut
from wire.manifest import Manifest

LIMIT_S = 60.0  # a search that was not answered by then never will be
CLIENTS_LIMIT = 64  # searches at once, beyond which clients are asked to come again


def seek(
    state: State,
    plan: Plan,
    purpose: Purpose,
    want: Want,
    items: int,
    failed: Failed | None = None,
) -> bool:
    """Ask for the plan's sake, if nothing is under way for it; False if that would be refused as
    it just was. A range that failed does not wait for a comparison."""
    if plan.search is not None and failed is None:
        return True
    sought = (state.devices.revision, want.partitions)
    if plan.refused is not None and plan.refused[0] == sought:
        plan.starved_of = plan.refused[1]
        return False
    plan.sought = sought
    plan.search = ask(state, purpose, plan.manifest, plan.key[1], want, items, failed)
    return True


def seek_for_run(state: State, run: Run, manifest: Manifest, items: int) -> bool:
    """Whether it is being found out if the devices could serve the run: with others that want the
    same, in one search. Too many searches are not waited for: the run is, then."""
    want = Want(run.options.partitions, "")
    joined = state.searches.join(manifest.digest, want, run.run)
    if not joined and len(state.searches) < CLIENTS_LIMIT:
        about = Hopefuls((run.run,))
        ask(state, "submit", manifest, run.options.exact, want, items, about)
        joined = True
    return joined


def ask(
    state: State,
    purpose: Purpose,
    manifest: Manifest,
    exact: bool,
    want: Want,
    items: int,
    about: About = None,
) -> int:
    """The number under which it is answered. A submit hopes for devices that have yet to prove
    life; a preview is refused while too many wait."""
    if purpose == "preview" and len(state.searches) >= CLIENTS_LIMIT:
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


def note_answer(state: State, plan: Plan, search: Search, found: PlanSearched) -> None:
    """What cannot be had is not sought again before the fleet or the wish changes."""
    if found.ranges is not None:
        plan.shortlist, plan.refused = found.shortlist, None
    elif found.kind == TimedOut.kind:
        plan.judged = False
    elif search.purpose != "compare":
        refuse(state, plan, (found.kind, found.reason))


def refuse(state: State, plan: Plan, why: tuple[str, str] | None) -> None:
    """What was sought last is of no use. `why` None: ranges were found that no device takes now."""
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
