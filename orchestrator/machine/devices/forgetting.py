"""Devices that are to be forgotten: because a person says so, or because nobody heard of them for
long enough.

Absence is counted while we could hear, on our own clock, and goes on after a restart from what the
journal has: what a broker retained may be of any age, and says nothing about it. A desk that runs
eight hours a day forgets in so many of its own days, whatever its calendar says.
"""

from __future__ import annotations

from orchestrator.machine.devices import replacing
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.events import ForgetAsked
from orchestrator.machine.records.instructions import (
    ClearDevice,
    ForgetAbsence,
    ForgetTimes,
    StoreAbsence,
)
from orchestrator.machine.records.state import State

NEVER = float("inf")
LOOK_S = 3600.0  # each device costs a look so often, and one that is away a record
SOON_S = 1e-3
LASTING_S = 60.0  # shorter absences are nobody's news


def forget_asked(state: State, event: ForgetAsked) -> None:
    forget(state, event.device, "a person asked to forget it")


def forget(state: State, name: str, why: str) -> None:
    """Clear what it retained, and go on without it; it is met anew if it speaks again."""
    device = state.devices.get(name)
    if device is not None and device.life.state != "lost":
        device.move("lost", state.now, why)
    replacing.device_gone(state, name, f"{name} was forgotten")
    state.devices.forget(name)
    state.places.forget_device(name)
    state.estimates.forget(name)
    state.emit(ForgetTimes(device=name))
    state.emit(ForgetAbsence(name))
    state.commands.drop(name)
    state.contested.pop(name, None)
    published = state.published.pop(name, None)
    if published is not None:
        state.keep_revision(name, published.revision)  # if it comes back, it obeys higher ones
    state.emit(ClearDevice(name))


def restore(state: State, absences: tuple[tuple[str, float], ...]) -> None:
    """How long devices had been away when the orchestrator before us ended."""
    for name, absent_s in absences:
        device = state.devices.met(name, state.now)
        device.absent_s, device.absence_kept = absent_s, True


def check(state: State, name: str) -> float:
    """Count its absence, and forget it if that was long enough; when to look again."""
    device, forget_s = state.devices.get(name), state.options.forget_s
    if device is None or not forget_s:
        return NEVER
    _count(state, device)
    if device.absent_s >= forget_s:
        forget(state, name, f"nobody heard of it for {forget_s:.0f} s")
        return NEVER
    _keep(state, device)
    return state.now + min(LOOK_S, forget_s - device.absent_s + SOON_S)


def _count(state: State, device: Device) -> None:
    if device.last_life > device.counted_at:
        device.absent_s = 0.0
    if state.connection is not None:
        since = max(device.counted_at, device.last_life, state.heard_at)
        device.absent_s += max(0.0, state.now - since)
    device.counted_at = state.now


def _keep(state: State, device: Device) -> None:
    if device.absent_s >= LASTING_S:
        device.absence_kept = True
        state.emit(StoreAbsence(device.name, device.absent_s))
    elif device.absence_kept:
        device.absence_kept = False
        state.emit(ForgetAbsence(device.name))
