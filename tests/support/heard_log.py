"""An agent's event log that also tells what it was given, whatever becomes of it there."""

from __future__ import annotations

from edge_agent.machine.machine import AgentMachine
from edge_agent.machine.records.event_log import EventLog
from wire.messages.events import DeviceEvent


class HeardLog(EventLog):
    def __init__(self, bound: int, batch: int) -> None:
        super().__init__(bound, batch)
        self._given: list[DeviceEvent] = []

    @classmethod
    def of(cls, machine: AgentMachine) -> HeardLog:
        """It takes the place of a machine's own, before that has handled anything."""
        limits = machine._agent.limits
        log = machine._agent.log = cls(limits.log_events, limits.batch_events)
        return log

    def append(self, event: DeviceEvent, now: float) -> None:
        self._given.append(event)
        super().append(event, now)

    def heard(self) -> list[DeviceEvent]:
        """What came since this was last asked."""
        given, self._given = self._given, []
        return given
