"""When an output is no longer needed (rule 5): its dependent's own output has come on, or the
item has its outcome on disk. Until then its holder keeps it."""

from __future__ import annotations

from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State


def received(state: State, item: Item, cut: int) -> None:
    """The activation at `cut` came to its dependent: outputs at earlier cuts may go."""
    for earlier in [at for at in item.outputs if at < cut]:
        for device in item.outputs.pop(earlier):
            state.commands.release(device, item.run, earlier, item.index, state.now)
        item.parked.pop(earlier, None)


def held_late(state: State, item: Item, cut: int, device: str) -> bool:
    """An output that is reported although a later one has come on: release it at once."""
    if not any(
        at > cut and any(state.devices.reachable(holder) for holder in holders)
        for at, holders in item.inputs.items()
    ):
        return False
    state.commands.release(device, item.run, cut, item.index, state.now)
    return True


def make_way(state: State, device: str) -> None:
    """It gave a frame up for lack of room: outputs there that nothing counts on may go. Such are
    left from before our start or from an earlier plan, and no room is reserved for them."""
    for item in state.involved.of(device):
        for cut in _idle_cuts(state.plan_of(item), item):
            if device in item.outputs[cut]:
                item.forget_frame(item.outputs, device, cut)
                state.commands.release(device, item.run, cut, item.index, state.now)
                state.counts["made_way"] += 1
        for cut in item.drop_strays(device):
            state.commands.release(device, item.run, cut, item.index, state.now)
            state.counts["made_way"] += 1


def _idle_cuts(plan: Plan | None, item: Item) -> list[int]:
    """An item that is not admitted begins again from its input; one that is goes on from a cut of
    its plan, or from its input."""
    if item.state in ("stored", "suspect"):
        return list(item.outputs)
    if item.state == "admitted" and plan is not None:
        return [cut for cut in item.outputs if cut not in plan.cuts]
    return []
