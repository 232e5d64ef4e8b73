"""Barrier mode: a partition starts on a wave of items once all of them have arrived there.

The wave is what was admitted together: all items of the run, or as many as fit the devices at
once (then the barrier holds per wave). Items that ended do not hold up the others.
"""

from __future__ import annotations

from orchestrator.machine.items import Item
from orchestrator.machine.plans import Plan
from orchestrator.machine.runs import Run
from orchestrator.machine.state import State
from wire.messages.commands import Open


def step(state: State) -> float:
    open_ready(state)
    return float("inf")


def open_ready(state: State) -> None:
    for run in state.runs.values():
        plan = state.plans.get(run.plan_key)
        if run.options.barrier and run.wave and plan is not None:
            for cut in plan.cuts[:-1]:
                _open_cut(state, plan, run, cut)


def _open_cut(state: State, plan: Plan, run: Run, cut: int) -> None:
    wave = [run.items[index] for index in run.wave]
    if not all(_came(item, cut) for item in wave):
        return
    waiting: dict[str, list[int]] = {}
    for item in wave:
        target = plan.target(item, cut)
        if target is None:
            return
        if target in item.inputs.get(cut, ()) and item.opened.get(cut) != target:
            item.opened[cut] = target
            waiting.setdefault(target, []).append(item.index)
    for device, items in waiting.items():
        state.outbox.post(device, Open(run.run, cut, tuple(sorted(items))))


def _came(item: Item, cut: int) -> bool:
    """It was received at this cut, or is known to have got beyond."""
    return item.received_cut >= cut or any(at > cut for at in item.outputs)
