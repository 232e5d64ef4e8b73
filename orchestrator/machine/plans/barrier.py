"""Barrier mode: a partition starts on a wave of items once all of them have arrived there.

The wave is what was admitted together: all items of the run, or as many as fit the devices at
once (then the barrier holds per wave). Items that ended do not hold up the others.
"""

from __future__ import annotations

from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from wire.messages.commands import Open

NEVER = float("inf")


def open_cuts(state: State, name: str) -> float:
    """From the first cut on, as far as the whole wave has come; what is open stays so until
    something of it is placed or received anew."""
    run = state.runs.get(name)
    plan = state.plans.get(run.plan_key) if run is not None else None
    if run is None or plan is None or not run.wave:
        return NEVER
    for cut in plan.cuts[:-1]:
        if cut in run.opened_cuts:
            continue
        if not _all_came(run, cut):
            break
        if _open(state, plan, run, cut):
            run.opened_cuts.add(cut)
    return NEVER


def _all_came(run: Run, cut: int) -> bool:
    """Whoever has come stays so: only those that had not are looked at again."""
    missing = run.missing.get(cut)
    if missing is None:
        missing = run.missing[cut] = list(run.wave)
    while missing:
        if missing[-1] in run.wave and not _came(run.items[missing[-1]], cut):
            return False
        missing.pop()
    return True


def _open(state: State, plan: Plan, run: Run, cut: int) -> bool:
    """Tell whoever holds inputs there; whether every item that is still to pass was told."""
    waiting: dict[str, list[int]] = {}
    whole = True
    for item in (run.items[index] for index in run.wave):
        target = plan.target(item, cut)
        if target is not None and target in item.inputs.get(cut, ()):
            if item.opened.get(cut) != target:
                item.opened[cut] = target
                waiting.setdefault(target, []).append(item.index)
        else:
            whole = whole and any(at > cut for at in (*item.inputs, *item.outputs))
    for device, items in waiting.items():
        state.commands.post(device, Open(run.run, cut, tuple(sorted(items))))
    return whole


def _came(item: Item, cut: int) -> bool:
    """It was received at this cut, or is known to have got beyond."""
    return item.received_cut >= cut or any(at > cut for at in item.outputs)
