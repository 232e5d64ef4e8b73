"""What the journal tells: what it held when we started, and what it has by now."""

from __future__ import annotations

from orchestrator.machine.devices import forgetting
from orchestrator.machine.items import outcomes, suspects
from orchestrator.machine.records.events import (
    InputStored,
    JournalFailed,
    OutcomeStored,
    PartyStored,
    RunStored,
    Started,
    StoredRun,
)
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from orchestrator.machine.records.transitions import lifecycle_of
from orchestrator.machine.runs import (
    aborting,
    attached_inputs,
    collecting,
    credits,
    requests,
)
from orchestrator.machine.runs.models import GRACE_S
from wire.messages.requests import Rejected
from wire.topics import nobody_of, user_of


def started(state: State, event: Started) -> None:
    """Take up the runs of before; devices get a moment to say what they hold."""
    state.boot, state.generation = event.boot, event.generation
    state.store_base = event.store_base
    state.models_by = state.now + GRACE_S
    state.agenda.look_at("orphans", "", state.models_by)
    state.estimates.restore(event.times)
    forgetting.restore(state, event.absences)
    for stored in event.runs:
        _restore(state, stored)


def _restore(state: State, stored: StoredRun) -> None:
    left = stored.party == nobody_of(user_of(stored.party))
    run = Run(
        run=stored.run,
        party=stored.party,
        model_name=stored.model_name,
        model=stored.model,
        options=stored.options,
        count=stored.count,
        end_cut=0,
        life=lifecycle_of("run", stored.run, "accepted", state.now, state.cause),
        begun_at=state.now - stored.age_s,
        active_at=state.now,
        heard_at=state.now,
        unread=left,
        silent=left and not stored.options.detached,
        agenda=state.agenda,
        involved=state.involved,
    )
    state.runs.add(run)
    for outcome in stored.outcomes:
        run.ended.add(outcome.item)
        run.stored.add(outcome.item)
        run.done += outcome.kind is None
        run.failed += outcome.kind is not None
        if outcome.acknowledged:
            run.acknowledged.add(outcome.item)
        else:
            run.outcomes[outcome.item] = outcome
    for index in stored.inputs:
        _restore_input(state, run, index)
    for index in {death[0] for death in stored.deaths} & run.items.keys():
        deaths = ((device, boot) for item, device, boot in stored.deaths if item == index)
        suspects.restore(run.items[index], deaths)
    if stored.fault is not None:
        aborting.restore(state, run, *stored.fault)
    run.look_at_all()


def _restore_input(state: State, run: Run, index: int) -> None:
    if index in run.ended:
        state.forget_input(run.run, index)
        return
    item = run.arrive(index, state.now)
    item.has_input = True
    item.attempt = state.first_attempt
    run.stored.add(index)
    item.life.move("storing", state.now, "in the journal")
    item.life.move("stored", state.now, "in the journal")
    run.enqueue(item)


def run_stored(state: State, event: RunStored) -> None:
    run = state.runs.get(event.run)
    if run is None or run.state != "storing":
        state.counts["unknown_record"] += 1
        return
    run.move("accepted", state.now)
    attached_inputs.stored(state, run, event.inputs)
    requests.accept(state, run)


def party_stored(state: State, event: PartyStored) -> None:
    run = state.runs.get(event.run)
    if run is not None and run.party == event.party and not run.unread:
        collecting.tell(state, run)


def input_stored(state: State, event: InputStored) -> None:
    run, item = state.runs.get(event.run), state.item(event.run, event.item)
    if run is None or item is None or item.state != "storing":
        state.counts["unknown_record"] += 1
        return
    item.life.move("stored", state.now)
    run.enqueue(item)
    run.show()
    credits.stored(state, run, item.index)


def outcome_stored(state: State, event: OutcomeStored) -> None:
    run = state.runs.get(event.run)
    item = state.item(event.run, event.outcome.item)
    if run is None or item is None or item.state != "ending":
        state.counts["unknown_record"] += 1
        return
    if item.index not in run.stored:  # it ended without an input
        credits.stored(state, run, item.index)
    outcomes.outcome_stored(state, run, event.outcome)


def failed(state: State, event: JournalFailed) -> None:
    """The disk refused: say so, rather than promise what a restart would forget."""
    state.counts["journal_failed"] += 1
    run = state.runs.get(event.run)
    if run is None:
        return
    if event.what == "run":
        if run.state == "storing":
            state.runs.remove(run)
            state.respond(run.party, Rejected(run.run, event.kind, event.reason))
        return
    item = run.items.get(event.item) if event.item is not None else None
    if item is None:
        return
    if event.what == "input" and item.state == "storing":
        state.budget.spool(run, -item.nbytes)
        item.has_input = False  # its client keeps it until the error is on disk
        outcomes.fail(state, item, event.kind, event.reason)
    elif event.what == "outcome" and item.state == "ending":
        _outcome_refused(state, run, item, event)


def _outcome_refused(state: State, run: Run, item: Item, event: JournalFailed) -> None:
    """A result that cannot be kept becomes an error; an error that cannot is told all the same."""
    if item.outcome is not None and item.outcome.kind is None:
        outcomes.replace_outcome(state, item, event.kind, event.reason)
    elif item.outcome is not None:
        outcomes.outcome_stored(state, run, item.outcome, kept=False)
