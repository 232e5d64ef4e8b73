"""Whatever waits for a time is on the agenda, not later than that time."""

from __future__ import annotations

from orchestrator.machine.devices.forgetting import LOOK_S
from orchestrator.machine.invariants.checks import check
from orchestrator.machine.records.agenda import Look, Name
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State

NEVER = float("inf")
LATE_S = 1.0  # a lease is looked at just after it is over


def check_agenda(state: State) -> None:
    """Nothing is looked at while there is no connection: it all is, once there is one again."""
    if state.connection is None or state.now < state.settling.until:
        return
    for run in state.runs.values():
        _check_run(state, run)
    for run in state.gathering.values():
        if run.awaited:
            _check_due(state, "attached", run.run, run.gather_until)
    for name, at in state.clear_at.items():
        _check_due(state, "clear", name, at)
    _check_devices(state)


def _check_devices(state: State) -> None:
    for until in state.contested.values():
        _check_due(state, "contested", "", until)
    for device in state.devices:
        if state.options.forget_s:
            _check_due(state, "absence", device.name, device.counted_at + LOOK_S)
        for part, refusal in device.refused.items():
            _check_due(state, "refusal", (device.name, part), refusal.until)
        if device.life.state == "alive" and device.name not in state.devices.silent:
            until = max(device.last_life, device.engaged_since or -NEVER, state.heard_at)
            _check_due(state, "device", device.name, until + state.options.lease_s + LATE_S)


def _check_run(state: State, run: Run) -> None:
    options = state.options
    if run.open and not (run.unread and run.goes_alone):
        since = max(run.heard_at, state.heard_at)
        lease_s = options.client_gone_s if run.silent else options.client_lease_s
        _check_due(state, "client", run.run, since + lease_s)
    _check_due(state, "credit", run.run, run.say_at)
    if run.attended and run.waiting:
        _check_due(state, "waiting", run.run, run.waits_until)
    if run.kept and not run.open and not run.items:
        _check_due(state, "expiry", run.run, run.active_at + run.options.lifetime_s)
    for item in run.items.values():
        if item.state == "suspect":
            due = state.agenda.due_at("item", item.key) < NEVER
            check(due, f"nobody looks at {item.key}, which was set aside")
    for item in run.in_flight.values():
        _check_due(state, "item", item.key, min(item.check_at, item.retry_at))


def _check_due(state: State, kind: Look, name: Name, at: float) -> None:
    due_at = state.agenda.due_at(kind, name)
    check(
        at == NEVER or due_at <= at,
        lambda: f"{name} is to be looked at ({kind}) by {at:.3f}, and will be at {due_at:.3f}",
    )
