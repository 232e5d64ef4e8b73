"""How an item leaves flight without an outcome: it begins again from its input later."""

from __future__ import annotations

from orchestrator.machine.items.outcomes import drop_standins
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from wire.messages.commands import Release


def leave_flight(state: State, plan: Plan, item: Item, to: str, why: str) -> None:
    """Its room is free for others. `to`: the state in which it waits."""
    run = state.runs[item.run]
    plan.leave(item, state.now)
    run.leave_flight(item.index)
    run.admitted -= 1
    drop_standins(plan, item)
    for cut, held in item.outputs.items():
        for name in held:
            state.commands.post(name, Release(item.run, cut, (item.index,)))
    item.leave_flight(to, state.now, why)
