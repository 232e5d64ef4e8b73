"""What came to the orchestrator from the broker, as its machine hears it: all but frames."""

from __future__ import annotations

from typing import Any

from orchestrator.machine.records import events as ev
from tests.simulation.network import Message
from wire import record
from wire.messages.assignment import FormerAssignment
from wire.messages.events import EventBatch
from wire.messages.requests import Request
from wire.messages.residency import Residency
from wire.messages.state import DeviceState, OrchestratorState
from wire.messages.telemetry import Telemetry


def event_of(message: Message) -> ev.Event:
    payload: Any = message.payload
    name, retained = message.name, message.retained
    if message.kind == "state":
        return ev.DeviceStateSeen(name, record.decode(DeviceState, payload), retained)
    if message.kind == "telemetry":
        return ev.TelemetrySeen(name, record.decode(Telemetry, payload), retained)
    if message.kind == "residency":
        return ev.ResidencySeen(name, record.decode(Residency, payload), retained)
    if message.kind == "assignment":
        found = record.decode(FormerAssignment, payload)
        listed = tuple(each.partition for each in found.partitions)
        return ev.AssignmentSeen(name, found.generation, listed)
    if message.kind == "events":
        return ev.EventsArrived(name, record.decode(EventBatch, payload))
    if message.kind == "requests":
        return ev.RequestArrived(name, record.decode(Request, payload))
    assert message.kind == "orchestrator"
    record.decode(OrchestratorState, payload)
    return ev.Ticked()
