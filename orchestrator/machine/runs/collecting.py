"""A run that outlives its client: another session of the same user lists it, and takes it over.

A run has one reader. Whoever left it, or is not heard of for `client_lease_s`, reads it no more;
until then another is told to come again. Whoever takes it over has no inputs for it: the run then
has the items that are here. To another user a run is as unknown as one that never was.
"""

from __future__ import annotations

from itertools import islice

from orchestrator.machine.items import outcomes
from orchestrator.machine.records.instructions import StoreCount, StoreParty
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import aborting, clients, obstacles, quotas
from orchestrator.machine.runs.progress import progress_of
from wire.errors import Busy, CrowdpipeError, InvalidInput, UnknownRun, UserError
from wire.messages.progress import ListedRun
from wire.messages.requests import (
    LISTED_COUNT,
    Collected,
    CollectRun,
    ListRuns,
    Rejected,
    RunsListed,
)
from wire.topics import nobody_of, user_of

READ_AGAIN_S = 2.0  # its reader may be gone by then
GAPS = 64  # items without an input that each get an error; with more the whole run ends
NO_INPUT = "its client went before the input was here"


def run_of_user(state: State, party: str, name: str) -> Run | None:
    """The run, if it is of any session of the party's user."""
    run = state.runs.get(name)
    return run if run is not None and run.kept and run.user == user_of(party) else None


def collect(state: State, party: str, asked: CollectRun) -> None:
    run = run_of_user(state, party, asked.run)
    try:
        if run is None:
            raise UnknownRun(_unknown(state, party, asked.run))
        _check_takeover(state, party, run, asked)
    except CrowdpipeError as error:
        again_s = error.again_s if isinstance(error, Busy) else None
        state.respond(party, Rejected(asked.run, error.kind, error.reason, again_s=again_s))
        return
    quotas.charge_numbers(state, party, len(run.items))
    quotas.charge_outcomes(state, party, run.ended.range_count + run.acknowledged.range_count)
    state.emit(StoreParty(run.run, party))  # also again: what is not on disk yet is not told
    run.hand_over(party, state.now)
    _close_inputs(state, run)


def tell(state: State, run: Run) -> None:
    """That the run is its reader's now, as the journal knows: also after a restart."""
    news = (state.generation, run.happenings.count)
    had = len(run.acknowledged)
    state.respond(run.party, Collected(run.run, _to_come(run), news, had))
    if run.obstacle is not None:
        obstacles.tell(state, run)


def _unknown(state: State, party: str, name: str) -> str:
    gone = state.tombstone_of(name, user_of(party))
    if gone is not None:
        return f"run {name} is not kept any more: {gone[1]}"
    return f"you have no run {name}: `crowdpipe runs` lists those that there are"


def is_read(state: State, run: Run) -> bool:
    """Somebody reads it, as far as is known: its reader may be gone for less than a lease."""
    heard_at = max(run.heard_at, state.heard_at)
    return not run.unread and state.now < heard_at + state.options.client_lease_s


def _check_takeover(state: State, party: str, run: Run, asked: CollectRun) -> None:
    """Raises what speaks against it."""
    if asked.model != run.model:
        raise UserError(
            f"run {run.run} is of '{run.model_name}' as it was then, and the model served under "
            "that name is another by now: add that one again to collect the run"
        )
    if run.party == party:
        return
    if is_read(state, run):
        raise Busy(f"another client reads run {run.run}, as far as is known", READ_AGAIN_S)
    if not run.over:
        quotas.check_party(state, party)


def _close_inputs(state: State, run: Run) -> None:
    """Nobody has the inputs that are not here."""
    if not run.open or run.whole:
        return
    count = max(run.highest, run.stored.highest) + 1
    missing = islice(run.stored.lacked(0, count - 1), GAPS + len(run.items) + 1)
    gaps = [index for index in missing if index not in run.items]
    if len(gaps) > GAPS:
        aborting.end(state, run, InvalidInput.kind, f"{NO_INPUT}, as those of many others")
        return
    if run.count != count:
        run.finish(count)
        state.emit(StoreCount(run.run, count))
    for index in gaps:
        run.stored.add(index)
        item = run.arrive(index, state.now)
        outcomes.fail(state, item, InvalidInput.kind, f"item {index}: {NO_INPUT}")


def _to_come(run: Run) -> tuple[tuple[int, int], ...]:
    """Items whose outcome is here, not acknowledged, or will be. Costs the items under way and the
    gaps, not the outcomes, of which there may be a million."""
    coming = run.ended.without(run.acknowledged)
    for index in run.items:
        coming.add(index)
    return coming.ranges()


def leave(state: State, run: Run) -> None:
    """Its reader takes no more of it: another may at once, also after a restart."""
    nobody = nobody_of(run.user)
    state.emit(StoreParty(run.run, nobody))
    run.leave(nobody)
    if run.open and not run.goes_alone and not run.silent:
        clients.let_wait(state, run)


def list_runs(state: State, party: str, asked: ListRuns) -> None:
    if asked.run is None:
        runs = state.runs.newest_of(user_of(party), LISTED_COUNT)
        left_out = state.runs.known[user_of(party)] - len(runs)
    else:
        run = run_of_user(state, party, asked.run)
        runs, left_out = [run] if run is not None else [], 0
    quotas.charge_outcomes(state, party, len(runs))
    listed = tuple(_listed(state, run) for run in runs if run.kept)
    gone = state.tombstone_of(asked.run, user_of(party)) if asked.run and not runs else None
    why = gone[1] if gone is not None else None
    state.respond(party, RunsListed(asked.request, listed, left_out, why))


def _listed(state: State, run: Run) -> ListedRun:
    return ListedRun(progress_of(state, run), state.now - run.begun_at, len(run.outcomes))
