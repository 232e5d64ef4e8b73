"""What clients ask for, and the inputs they send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from orchestrator.machine.items import outcomes
from orchestrator.machine.plans import previews, searching
from orchestrator.machine.plans.planning import items_of
from orchestrator.machine.plans.starving import try_again
from orchestrator.machine.records.events import FrameHead, InputArrived, PlanSearched
from orchestrator.machine.records.instructions import (
    DiscardPending,
    StoreAcknowledged,
    StoreCount,
    StoreInput,
)
from orchestrator.machine.records.item import Item, input_fault
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.search import Hopefuls, Search
from orchestrator.machine.records.state import State
from orchestrator.machine.records.transitions import lifecycle_of
from orchestrator.machine.runs import (
    aborting,
    attached_inputs,
    collecting,
    credits,
    obstacles,
    quotas,
)
from orchestrator.machine.runs.batch_sizes import batch_size_of
from orchestrator.machine.runs.models import awaits_model
from orchestrator.planner.partitioning import check_wanted
from orchestrator.planner.ranking import check_policy
from wire.errors import (
    Busy,
    CrowdpipeError,
    InvalidInput,
    NoDevice,
    RunCancelled,
    TimedOut,
    UserError,
)
from wire.manifest import Manifest
from wire.messages.requests import (
    Accepted,
    AcknowledgeResults,
    CancelRun,
    CollectRun,
    Finish,
    ItemFailed,
    LeaveRun,
    ListRuns,
    Rejected,
    Renew,
    Request,
    RequestPlan,
    Resume,
    RunOptions,
    Submit,
)
from wire.topics import user_of

EARLY_S = 0.5  # until an input that came before its model was told may come again
CANCELLED = "the run was cancelled by its client"
UNKNOWN_RUN = "this run is not known here: it is over, or its lifetime has passed; submit anew"
TAKEN = "another session of its user reads this run, as far as is known here; collect it once more"
LEFT = "no session reads this run now; collect it (again): what nobody acknowledged is kept"


def request_arrived(state: State, party: str, request: Request) -> None:
    """Answer it, unless its party has asked for too much lately."""
    busy = quotas.refusal(state, party, request)
    if busy is not None:
        quotas.tell(state, party, request, busy)
        return
    _HANDLERS[type(request)](state, party, request)


def _submit(state: State, party: str, asked: Submit) -> None:
    known = state.runs.get(asked.run)
    if known is not None:
        _submit_again(state, party, known)
        return
    gone = state.tombstone_of(asked.run, user_of(party))
    if gone is not None:
        state.counts["late_submit"] += 1
        state.respond(party, Rejected(asked.run, *gone))
        return
    try:
        quotas.check_new_run(state, party)
        manifest = _checked(state, asked)
        batch_size = batch_size_of(manifest, asked.options)
    except CrowdpipeError as error:
        again_s = error.again_s if isinstance(error, Busy) else None
        state.respond(party, Rejected(asked.run, error.kind, error.reason, again_s=again_s))
        return
    now = state.now
    run = Run(
        run=asked.run,
        party=party,
        model_name=manifest.name,
        model=manifest.digest,
        options=replace(asked.options, batch_size=batch_size),
        count=asked.count,
        end_cut=len(manifest.segments),
        life=lifecycle_of("run", asked.run, "gathering", now, state.cause),
        begun_at=now,
        active_at=now,
        heard_at=now,
        unread=asked.options.detached,
        agenda=state.agenda,
        involved=state.involved,
    )
    state.runs.add(run)
    try_again(state, run.plan_key)
    served = _is_served(state, manifest, run.options)
    items = items_of(run.count)
    run.checked = served or not searching.seek_for_run(state, run, manifest, items)
    attached_inputs.begin(state, run, asked.attached)


def searched(state: State, search: Search, found: PlanSearched) -> None:
    """Whether the devices there are could serve these runs. Without any, they wait for one."""
    names = search.about.runs if isinstance(search.about, Hopefuls) else ()
    for run in [state.gathering[name] for name in names if name in state.gathering]:
        if found.ranges is None and found.kind != NoDevice.kind:
            attached_inputs.reject(state, run)
            state.respond(run.party, Rejected(run.run, found.kind, found.reason))
        else:
            attached_inputs.approve(state, run)


def _submit_again(state: State, party: str, run: Run) -> None:
    if run.party != party:
        reason = "this run's id belongs to another client; mint a new one"
        state.respond(party, Rejected(run.run, UserError.kind, reason))
    elif run.kept:  # else the answer is on its way
        accept(state, run)


def accept(state: State, run: Run) -> None:
    run.hear(state.now)
    credits.told(state, run)
    stored = run.stored.ranges()
    state.respond(run.party, Accepted(run.run, run.model, run.granted, stored))


def _checked(state: State, asked: Submit) -> Manifest:
    """The run's model, if all that can be known now speaks for the run."""
    manifest = state.model_named(asked.model)
    options, most = asked.options, state.options.run_items
    if asked.count is not None and not 0 <= asked.count <= most:
        raise InvalidInput(f"a run of {asked.count} items is not possible: 0 to {most} are")
    if options.barrier and asked.count is None:
        raise InvalidInput("a barrier run needs the number of its items when it is submitted")
    longest_s = state.options.lifetime_most_s
    if not 0 < options.lifetime_s <= longest_s:
        said = f"a lifetime of {options.lifetime_s:g} s is not possible"
        raise InvalidInput(f"{said}: it ends after {longest_s:g} s at the latest")
    if manifest.exact_only and not options.exact:
        raise InvalidInput(f"{manifest.name} is served exactly only: ask for an exact run")
    check_policy(options.policy)
    check_wanted(manifest, options.partitions)
    return manifest


def _is_served(state: State, manifest: Manifest, options: RunOptions) -> bool:
    """There is a plan such as this run asks for, with a device for each partition: what stands
    need not be searched for, which takes 40 ms for 19 segments and 5 devices."""
    plan = state.plans.get((manifest.digest, options.exact))
    if plan is None:
        return False
    return not plan.unplaceable and options.partitions in (None, len(plan.placements))


def _own(state: State, party: str, name: str) -> Run | None:
    """The client's own run; another's is as unknown to it as one that never was."""
    run = state.runs.get(name)
    if run is None or run.party != party:
        state.counts["unknown_run"] += 1
        return None
    run.hear(state.now)
    return run


def _finish(state: State, party: str, asked: Finish) -> None:
    run = _own(state, party, asked.run)
    if run is None or not run.open or run.count == asked.count:
        return
    highest = max(run.highest, run.stored.highest)
    if run.count is not None or not highest < asked.count <= state.options.run_items:
        state.counts["refused_finish"] += 1
        return
    run.finish(asked.count)
    state.emit(StoreCount(run.run, asked.count))


def _cancel(state: State, party: str, asked: CancelRun) -> None:
    """Also another session of its user's may."""
    run = collecting.run_of_user(state, party, asked.run)
    if run is None or run.party == party:
        run = _own(state, party, asked.run)
    if run is not None and run.party == party and not run.options.detached:
        run.disown()  # its reader says so; of another's, or a detached one, results are kept
    if run is None or (run.kept and not run.open):
        return
    if run.state == "gathering":
        attached_inputs.cancel(state, run, CANCELLED)
        return
    if not run.kept:
        for index in list(run.items):
            run.drop(index)  # they go from disk with the run; nobody was told that they are there
    aborting.end(state, run, RunCancelled.kind, CANCELLED)


def _acknowledge(state: State, party: str, asked: AcknowledgeResults) -> None:
    run = _own(state, party, asked.run)
    if run is None:
        return
    fresh = run.acknowledge(asked.items)
    if fresh:
        state.emit(StoreAcknowledged(run.run, tuple(fresh)))


def _resume(state: State, party: str, asked: Resume) -> None:
    run = _own(state, party, asked.run)
    if run is None:
        _tell_gone(state, party, asked.run)
        return
    if not run.kept:
        return
    credits.say(state, run)
    if not asked.reads:
        run.leave()
        return
    if run.unread:
        run.hand_over(party, state.now)
    if run.happenings.count:
        run.happenings.tell_again()
        run.show()
    if run.obstacle is not None:
        obstacles.tell(state, run)
    quotas.charge_outcomes(state, party, len(run.outcomes))
    for outcome in run.outcomes.values():
        outcomes.publish(state, run, outcome)


def _leave(state: State, party: str, asked: LeaveRun) -> None:
    run = _own(state, party, asked.run)
    if run is not None and run.kept:
        collecting.leave(state, run)


def _renew(state: State, party: str, asked: Renew) -> None:
    for name in asked.runs:
        if _own(state, party, name) is None:
            _tell_gone(state, party, name)


def _plan(state: State, party: str, asked: RequestPlan) -> None:
    previews.answer(state, party, asked)


def input_arrived(state: State, event: InputArrived) -> None:
    """Check an input's head, and have it stored, or end the item with what is wrong."""
    head, at = event.head, event.head.activation
    run = state.gathering.get(at.run)
    if run is not None and run.party == event.party and at.cut == 0:
        run.hear(state.now)
        attached_inputs.input_arrived(state, run, head)
        return
    run = state.runs.get(at.run)
    if run is None or run.party != event.party or not run.open or at.cut != 0:
        _discard(state, head, "stray_input")
        _tell_stray(state, event, run)
        return
    run.hear(state.now)
    if at.item in run.items or at.item in run.ended:
        _discard(state, head, "repeated_input")
        _say_soon(state, run)  # its client may not know that it is here
        return
    limit = run.count if run.count is not None else state.options.run_items
    nbytes = credits.kept_nbytes(state, head.nbytes)
    if not 0 <= at.item < limit or state.budget.overflows(run, nbytes):
        _discard(state, head, "excess_input")
        _tell_excess(state, run, at.item)
        return
    if awaits_model(state, run):  # we just started: the store was not read yet
        _discard(state, head, "early_input")
        run.say_by(state.now + EARLY_S, state.now)
        return
    item = run.arrive(at.item, state.now)
    run.show()
    _take(state, run, item, head)


def _tell_gone(state: State, party: str, run: str) -> None:
    """It is not this party's, or never was: one that collected it just before we ended may be
    known by its former reader alone."""
    found = collecting.run_of_user(state, party, run)
    if found is not None:
        why = (UserError.kind, TAKEN if collecting.is_read(state, found) else LEFT)
    else:
        why = state.tombstone_of(run, user_of(party)) or (TimedOut.kind, UNKNOWN_RUN)
    state.respond(party, Rejected(run, *why))


def _tell_stray(state: State, event: InputArrived, run: Run | None) -> None:
    """Whoever sends inputs to a run that takes none is told, once it can know. That of one that was
    never heard of may be overtaking its `submit`."""
    at = event.head.activation
    if not quotas.may_be_answered(state, event.party):
        return
    if run is None and state.tombstone_of(at.run, user_of(event.party)) is None:
        told = Rejected(at.run, TimedOut.kind, UNKNOWN_RUN, doubtful=True)
        state.respond(event.party, told)
    elif run is None:
        _tell_gone(state, event.party, at.run)
    elif run is not None and run.party == event.party and run.fault is not None:
        state.respond(event.party, Rejected(at.run, *run.fault))


def _tell_excess(state: State, run: Run, item: int) -> None:
    """It has no room now, or never: then the item fails, unless its run cannot have it at all."""
    most = state.options.run_items
    if item < most or run.count is not None:
        _say_soon(state, run)
    elif quotas.may_be_answered(state, run.party):
        reason = f"item {item}: a run may have {most} items; begin another one"
        state.respond(run.party, ItemFailed(run.run, item, InvalidInput.kind, reason))


def _say_soon(state: State, run: Run) -> None:
    """Once for all inputs of a moment that are not taken."""
    run.say_by(state.now + state.options.coalesce_s, state.now)


def _take(state: State, run: Run, item: Item, head: FrameHead) -> None:
    manifest = state.manifests.get(run.model)
    if manifest is None:
        fault: str | None = f"model '{run.model_name}' was removed or replaced"
    else:
        fault = input_fault(manifest, head)
    if fault is not None:
        state.emit(DiscardPending(head.activation))
        credits.stored(state, run, item.index)
        outcomes.fail(state, item, InvalidInput.kind, f"item {item.index}: {fault}")
        return
    item.nbytes, item.has_input = credits.kept_nbytes(state, head.nbytes), True
    state.budget.spool(run, item.nbytes)
    item.life.move("storing", state.now)
    state.emit(StoreInput(head.activation))


def _discard(state: State, head: FrameHead, what: str) -> None:
    state.counts[what] += 1
    state.emit(DiscardPending(head.activation))


_HANDLERS: dict[type[Request], Callable[[State, str, Any], None]] = {
    Submit: _submit,
    Finish: _finish,
    CancelRun: _cancel,
    AcknowledgeResults: _acknowledge,
    Resume: _resume,
    CollectRun: collecting.collect,
    LeaveRun: _leave,
    ListRuns: collecting.list_runs,
    Renew: _renew,
    RequestPlan: _plan,
}
