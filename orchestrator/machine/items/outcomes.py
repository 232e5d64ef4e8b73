"""How items end: the first terminal outcome goes to the journal, and only then to the client.

An item that is ending or ended takes no other outcome; what arrives late is discarded and
counted. Afterwards everybody who holds something of it is told to forget it.
"""

from __future__ import annotations

from orchestrator.machine.records.events import FrameHead, Outcome
from orchestrator.machine.records.instructions import SendResult, StoreOutcome
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from wire.ids import ActivationId
from wire.messages.requests import ItemFailed


def fail(state: State, item: Item, kind: str, reason: str) -> None:
    """End the item with an error, unless it has an outcome already."""
    if item.state not in ("ending", "ended"):
        _end(state, item, Outcome(item.index, kind, reason), None)


def succeed(state: State, item: Item, head: FrameHead) -> None:
    """End the item with the pending result."""
    _end(state, item, Outcome(item.index), head.activation)


def _end(state: State, item: Item, outcome: Outcome, result: ActivationId | None) -> None:
    run = state.runs[item.run]
    plan = state.plans.get(run.plan_key)
    if plan is not None:
        plan.leave(item, state.now)
    run.dequeue(item.index)
    run.leave_flight(item.index)
    item.life.move("ending", state.now, outcome.reason or "result")
    item.outcome = outcome
    state.emit(StoreOutcome(run.run, outcome, result))


def replace_outcome(state: State, item: Item, kind: str, reason: str) -> None:
    """The journal could not take its result: it never became an outcome, this error does."""
    item.outcome = Outcome(item.index, kind, reason)
    state.emit(StoreOutcome(item.run, item.outcome))


def outcome_stored(state: State, run: Run, outcome: Outcome, *, kept: bool = True) -> None:
    """It is on disk: publish it, and let everything of the item go. An outcome that the disk did
    not keep is told all the same, but the input stays there: who starts after us finds the item
    without an outcome, and its client may not have heard of this one."""
    item = run.items.get(outcome.item)
    if item is None:
        state.counts["unknown_outcome"] += 1
        return
    run.end(item, outcome, state.now)
    if not run.unread:
        publish(state, run, outcome)
    if item.has_input:
        state.budget.spool(run, -item.nbytes)
        if kept:
            state.forget_input(run.run, item.index)
    _let_go(state, item, outcome)


def publish(state: State, run: Run, outcome: Outcome) -> None:
    """Tell the client, for the first time or again."""
    if outcome.kind is not None:
        failed = ItemFailed(run.run, outcome.item, outcome.kind, outcome.reason)
        state.respond(run.party, failed)
        return
    state.emit(SendResult(ActivationId(run.run, outcome.item, run.end_cut), run.party))


def _let_go(state: State, item: Item, outcome: Outcome) -> None:
    """A result that came the straight way leaves only outputs; anything else may leave more."""
    plan = state.plan_of(item)
    if plan is not None:
        drop_standins(plan, item)
    once = item.sends <= 1 and not item.detours and not item.inputs
    straight = outcome.kind is None and once and not item.strays and not item.helps
    if not straight:
        for device in item.touched:
            if state.devices.reachable(device):
                state.commands.cancel_item(device, item.run, item.index, state.now)
        return
    for cut, held in item.outputs.items():
        for device in held:
            state.commands.release(device, item.run, cut, item.index, state.now)


def drop_standins(plan: Plan, item: Item) -> None:
    for placement in plan.placements:
        for device in list(placement.standins):
            placement.release_standin(device, item.key)


def fail_plan(state: State, plan: Plan, kind: str, reason: str) -> None:
    """No item of this plan's runs can go on: each ends with this error."""
    for run in state.runs.laden(plan.key):
        fail_items(state, run, kind, reason)


def fail_items(state: State, run: Run, kind: str, reason: str) -> None:
    """All that is on disk and has no outcome."""
    for item in list(run.items.values()):
        if item.state in ("stored", "admitted", "suspect"):
            fail(state, item, kind, reason)
