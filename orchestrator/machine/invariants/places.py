"""Places: by cut what they are by device, and of every range that a device is told to serve."""

from __future__ import annotations

from orchestrator.machine.invariants.checks import check, check_same
from orchestrator.machine.records.state import State


def check_places(state: State) -> None:
    makers: dict[tuple[str, bool, int], set[str]] = {}
    takers: dict[tuple[str, bool, int], set[str]] = {}
    for device in state.places.devices():
        check(device in state.devices, f"{device} has places, and is not known")
        for part in state.places.of(device):
            makers.setdefault((part.model, part.exact, part.cut), set()).add(device)
            takers.setdefault((part.model, part.exact, part.first), set()).add(device)
    check_same("who has a place before each cut", state.places.by_cut("makers"), makers)
    check_same("who has a place behind each cut", state.places.by_cut("takers"), takers)
    _check_published(state)


def _check_published(state: State) -> None:
    for plan in state.plans.values():
        for placement in plan.placements:
            part = placement.partition
            for device in filter(None, (placement.device, *placement.standins)):
                told = state.published.get(device)
                listed = told is not None and any(
                    part == each.partition for each in told.partitions
                )
                placed = not listed or state.places.serves(device, part)
                check(placed, f"{device} was told to serve {part}, and has no place there")
