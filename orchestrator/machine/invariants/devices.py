"""Which devices may be given work, are silent, hold something, or refused something."""

from __future__ import annotations

from orchestrator.machine.invariants.checks import check, check_same
from orchestrator.machine.records.devices import ASKED_OF
from orchestrator.machine.records.state import State

LATE_S = 1e-3  # a lease is looked at just after it is over


def check_devices(state: State) -> None:
    devices = state.devices
    for device in devices:
        asked_of = device.life.state in ASKED_OF
        able = device.capabilities is not None
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
        proven = device.life.state != "unproven" and device.name in devices.turns
        check(not proven, lambda device=device: f"{device.life} is still to be asked")
        for part in device.refused:
            listed = device in devices.refusing((part.model, part.exact))
            check(listed, lambda device=device: f"{device.life} is not listed as refusing")
    _check_holders(state)


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
