"""What one party and one user may have at once, and what is told to who wants more.

A party is one session of a user's, as the broker vouches. Beyond its bounds a request is refused
before anything is made of it: nothing goes to disk, and nothing is published but the answer, which
a party gets at most once a second; what is refused in between is counted. Whoever is refused tries
again by itself, so an answer that was not given is not missed.
"""

from __future__ import annotations

from orchestrator.machine.records.quotas import Quotas
from orchestrator.machine.records.state import State
from wire.errors import Busy
from wire.messages.requests import (
    AcknowledgeResults,
    CollectRun,
    ListRuns,
    Rejected,
    Renew,
    Request,
    RequestFailed,
    RequestPlan,
    Response,
    Resume,
    Submit,
)
from wire.topics import user_of

# They begin something, or have much said again.
ASKS = (Submit, RequestPlan, Resume, CollectRun, ListRuns)
ENTRIES = 16  # of a list count as much as a request
NUMBERS = 1024  # of items that are looked through do, which takes 0.3 ms
RUN_AGAIN_S = 2.0  # a run that is refused for those under way: one of them may have ended
RUNS_LIMIT = 10_000  # runs known at once, of everybody


def refusal(state: State, party: str, request: Request) -> Busy | None:
    """Why the request has to wait; None if it may be answered, and then it counts."""
    allowed = state.quotas.asks if isinstance(request, ASKS) else state.quotas.words
    wait_s = allowed.wait_s(party, state.now)
    if wait_s <= 0.0:
        allowed.spend(party, state.now, _weight(request))
        return None
    options = state.options
    per_s = options.asks_per_s if isinstance(request, ASKS) else options.words_per_s
    return Busy(
        f"more than {per_s:g} requests a second came from this client, or "
        f"{options.user_parties} times as many from its user",
        max(wait_s, Quotas.TOLD_EVERY_S),
    )


def _weight(request: Request) -> float:
    listed = {AcknowledgeResults: "items", Renew: "runs"}.get(type(request))
    return 1.0 + (len(getattr(request, listed)) / ENTRIES if listed is not None else 0.0)


def charge_outcomes(state: State, party: str, count: int) -> None:
    """So many outcomes are said again for it."""
    state.quotas.asks.spend(party, state.now, count / ENTRIES)


def charge_numbers(state: State, party: str, count: int) -> None:
    """So many items' numbers are looked through for it."""
    state.quotas.asks.spend(party, state.now, count / NUMBERS)


def may_be_answered(state: State, party: str) -> bool:
    """Whether an input of its that is not taken is worth an answer, which then counts as a word."""
    may = state.quotas.words.wait_s(party, state.now) <= 0.0
    if may:
        state.quotas.words.spend(party, state.now)
    return may


def tell(state: State, party: str, request: Request, busy: Busy) -> None:
    """Refuse it, and say so if it was not said just now."""
    state.counts["busy"] += 1
    if state.quotas.may_be_told(party, state.now):
        answer = busy_answer(request, busy)
        if answer is not None:
            state.respond(party, answer)


def busy_answer(request: Request, busy: Busy) -> Response | None:
    """None if nobody waits for one."""
    if isinstance(request, (RequestPlan, ListRuns)):
        return RequestFailed(request.request, busy.kind, busy.reason, busy.again_s)
    if isinstance(request, Renew):
        return None
    return Rejected(request.run, busy.kind, busy.reason, again_s=busy.again_s)


def check_new_run(state: State, party: str) -> None:
    """Raises `Busy` if the party, its user, or all together have as many runs as they may."""
    check_party(state, party)
    options, runs = state.options, state.runs
    for have, most, whose in (
        (runs.under_way[user_of(party)], options.user_runs, "runs of this user are under way"),
        (runs.known[user_of(party)], options.user_kept_runs, "runs of this user are kept"),
        (len(runs), RUNS_LIMIT, "runs are kept here"),
    ):
        _check(have, most, whose)


def check_party(state: State, party: str) -> None:
    """Raises `Busy` if the party has as many runs under way as it may."""
    whose = "runs of this client are under way"
    _check(state.runs.under_way[party], state.options.party_runs, whose)


def _check(have: int, most: int, whose: str) -> None:
    if have >= most:
        raise Busy(f"{most} {whose} already; end one, or wait until one is over", RUN_AGAIN_S)
