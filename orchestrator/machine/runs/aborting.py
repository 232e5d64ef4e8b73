"""How a run ends as a whole before its items do: cancelled, its model gone, or its client gone.

What ended it is on disk, so that no restart takes it up again. Items without an outcome get it as
theirs; results that are there already stay until the client has them.
"""

from __future__ import annotations

from orchestrator.machine.items import outcomes
from orchestrator.machine.records.instructions import StoreEnding
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from wire.errors import RunCancelled


def end(state: State, run: Run, kind: str, reason: str) -> None:
    """End a run that is open, or on its way to disk; whoever holds something of it forgets it."""
    state.emit(StoreEnding(run.run, kind, reason))
    plan = state.plans.get(run.plan_key)
    devices = plan.devices() if plan is not None else []
    touched = [device for item in run.items.values() for device in item.touched]
    for device in dict.fromkeys([*devices, *touched]):
        if state.devices.reachable(device):
            state.commands.cancel_run(device, run.run)
    restore(state, run, kind, reason)


def restore(state: State, run: Run, kind: str, reason: str) -> None:
    """It has ended, as the journal knows."""
    to = "cancelled" if kind == RunCancelled.kind else "failed"
    run.fault = (kind, reason)
    run.move(to, state.now, reason)
    for item in list(run.items.values()):
        outcomes.fail(state, item, kind, reason)
