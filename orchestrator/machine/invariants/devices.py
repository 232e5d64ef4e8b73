"""Which devices may be given work, are silent, hold something, or refused something."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.machine.invariants.checks import check, check_same
from orchestrator.machine.records.device import LOAD_DEATHS_LIMIT, Device
from orchestrator.machine.records.devices import ASKED_OF
from orchestrator.machine.records.refusals import Grounds
from orchestrator.machine.records.state import State
from wire.ids import PartitionId

LATE_S = 1e-3  # a lease is looked at just after it is over


def check_devices(state: State) -> None:
    devices = state.devices
    for device in devices:
        asked_of = device.life.state in ASKED_OF
        able = device.may_be_able
        hopeful = device.name in devices.hopeful
        check_same(f"{device.name} may have work later", hopeful, asked_of and able)
        over = device.reachable and device.connection in device.ended
        check(not over, lambda device=device: f"{device.life}, and its connection is over")
        since_s = state.now - max(device.last_life, state.heard_at)
        if abs(since_s - state.options.lease_s) > LATE_S and state.connection is not None:
            usable = device.name in devices.usable
            check_same(f"{device.name} may have work now", usable, devices.is_usable(device))
            silent = asked_of and not devices.fresh(device)
            check_same(f"{device.name} is silent", device.name in devices.silent, silent)
        check(len(device.load_deaths) <= LOAD_DEATHS_LIMIT, f"{device.name}: many load deaths")
        proven = device.life.state != "unproven" and device.name in devices.turns
        check(not proven, lambda device=device: f"{device.life} is still to be asked")
    _check_holders(state)
    _check_refusals(state)


def _check_holders(state: State) -> None:
    modes = {(part.model, part.exact) for device in state.devices for part in device.residency}
    for mode in modes:
        expected = {
            device.name
            for device in state.devices
            if any((part.model, part.exact) == mode for part in device.residency)
        }
        found = {device.name for device in state.devices.holders(mode)}
        check_same(f"devices with partitions of {mode}", found, expected)


def _check_refusals(state: State) -> None:
    devices, refusals = state.devices, state.devices.refusals
    for what, found, among in (
        ("who may have work, and refused", refusals.usable, devices.usable),
        ("who is silent, and refused", refusals.silent, devices.silent),
    ):
        names = {part: set(refusing) for part, refusing in found.items()}
        check_same(what, names, _refused_by(among.values()))
    grounds = {each: set(refused) for each, refused in refusals.by_grounds.items()}
    check_same("what was refused, and why", grounds, _refused_for(devices))


def _refused_by(devices: Iterable[Device]) -> dict[PartitionId, set[str]]:
    names: dict[PartitionId, set[str]] = {}
    for device in devices:
        for part in device.refused:
            names.setdefault(part, set()).add(device.name)
    return names


def _refused_for(devices: Iterable[Device]) -> dict[Grounds, set[tuple[str, PartitionId]]]:
    refused: dict[Grounds, set[tuple[str, PartitionId]]] = {}
    for device in devices:
        for part, refusal in device.refused.items():
            grounds = (part.model, part.exact, refusal.failure.kind)
            refused.setdefault(grounds, set()).add((device.name, part))
    return refused
