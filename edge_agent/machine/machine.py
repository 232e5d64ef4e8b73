"""The agent's decisions in one place: events in, instructions out.

Pure: no I/O, no clock, no thread, no randomness; the same events at the same times give the same
instructions. Never touches bytes: frames and blobs are names here. The shell carries out the
instructions in order and brings back what came of them as events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from edge_agent.machine.assignment import assigning, fetching
from edge_agent.machine.connection import commands, connecting, reporting
from edge_agent.machine.execution import choosing, deadlines, loading, tasks
from edge_agent.machine.frames import arrivals, room
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.cause import stimulus_of
from edge_agent.machine.records.events import (
    Answer,
    AssignmentArrived,
    BlobFetched,
    BlobsRemoved,
    CommandsArrived,
    Connected,
    Disconnected,
    Event,
    ExecutionFailed,
    FetchFailed,
    FetchProgressed,
    FrameArrived,
    FrameLost,
    LoadRefused,
    OrchestratorSeen,
    OrderRefused,
    PartitionGone,
    PartitionReady,
    SegmentsPrepared,
    Started,
    StateCleared,
    StopAsked,
    TaskExecuted,
    TelemetryRead,
    Ticked,
)
from edge_agent.machine.records.instructions import Instruction
from edge_agent.machine.records.limits import AgentLimits
from wire.lifecycle import Cause, IllegalTransition
from wire.messages.assignment import Assignment
from wire.messages.state import Capabilities
from wire.versions import OURS, WireRange


class AgentMachine:
    """One agent in one boot. Raises `IllegalTransition` on an event that cannot be by now."""

    def __init__(
        self,
        device: str,
        capabilities: Capabilities,
        limits: AgentLimits | None = None,
        versions: WireRange = OURS,
    ) -> None:
        self._agent = Agent(device, capabilities, limits or AgentLimits(), versions)
        self._due_at: float | None = None
        self._wake_at: float | None = None

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """`now` in seconds of the device's monotonic clock, never falling."""
        return self.handle_all((event,), now)

    def handle_all(self, events: Sequence[Event], now: float) -> list[Instruction]:
        """What came by now, in its order. What is due or possible is looked at once, after the
        last: with each event that look would take as long as the event itself."""
        agent = self._agent
        agent.instructions = []
        agent.now = now
        deadlines.excuse_suspension(agent, self._due_at, now)
        for event in events:
            if not agent.ended:
                self._take(event, now)
        if not agent.ended:
            _settle(agent, now)
        self._wake_at = self._next_wake()
        self._due_at = self._wake_at if agent.slot.busy else None
        return agent.instructions

    def _take(self, event: Event, now: float) -> None:
        agent = self._agent
        if agent.life.state == "new" and not isinstance(event, Started):
            raise IllegalTransition(f"{type(event).__name__} before Started; {agent.life}")
        agent.cause.stimulus = stimulus_of(event)
        if not (isinstance(event, Answer) and deadlines.is_late(agent, event)):
            HANDLERS[type(event)](agent, event, now)
        if isinstance(event, ABOUT_FRAMES):
            agent.touched_at = now

    def wake_at(self) -> float | None:
        """When `Ticked` is wanted; None: nothing becomes due without another event."""
        return self._wake_at

    def _next_wake(self) -> float | None:
        agent = self._agent
        if agent.ended:
            return None
        times = [arrivals.early_wake_at(agent), agent.stop_by, agent.slot.deadline]
        if not agent.stopping:
            times.append(agent.fetches.wake_at())
        times.append(room.wake_at(agent))
        if agent.online:
            times += [reporting.restate_wake_at(agent), reporting.gather_wake_at(agent)]
            times += [agent.repeat_at, agent.residency.wake_at(), agent.telemetry.wake_at()]
        return min((time for time in times if time is not None), default=None)

    def validate(self) -> None:
        """Raises `InvariantBroken` if a record contradicts itself or another. Looks at everything:
        for tests and `--validate`."""
        from edge_agent.machine.invariants.everything import validate

        validate(self._agent)

    @property
    def cause(self) -> Cause:
        """The last event, or the last command in it; `str` puts it into words."""
        return self._agent.cause

    @property
    def assignment(self) -> Assignment | None:
        """The one that is obeyed."""
        return self._agent.assignment

    @property
    def counts(self) -> Mapping[str, int]:
        """What was ignored, dropped or failed so far, by a word each."""
        agent = self._agent
        return MappingProxyType(agent.counts | Counter(dropped_events=agent.log.dropped))


def _settle(agent: Agent, now: float) -> None:
    """Do everything that is due or possible now, whichever event made it so."""
    arrivals.expire_early(agent, now)
    deadlines.expire(agent, now)
    fetching.settle_partitions(agent, now)
    if not agent.stopping:
        fetching.fetch_more(agent, now)
        fetching.settle_partitions(agent, now)
    choosing.choose(agent, now)
    reporting.publish(agent, now)
    connecting.stop_when_done(agent, now)


def _telemetry_read(agent: Agent, event: TelemetryRead, now: float) -> None:
    agent.telemetry.read(event.readings)


def _fetch_progressed(agent: Agent, event: FetchProgressed, now: float) -> None:
    agent.fetches.progress(event.digest, event.nbytes)


def _ticked(agent: Agent, event: Ticked, now: float) -> None:
    """Nothing of its own: `_settle` does what is due after every event."""


ABOUT_FRAMES = (FrameArrived, CommandsArrived, TaskExecuted, ExecutionFailed)
HANDLERS: dict[type, Callable[[Agent, Any, float], None]] = {
    Started: connecting.started,
    Connected: connecting.connected,
    StateCleared: connecting.state_cleared,
    Disconnected: connecting.disconnected,
    OrchestratorSeen: connecting.orchestrator_seen,
    OrderRefused: connecting.order_refused,
    AssignmentArrived: assigning.assignment_arrived,
    CommandsArrived: commands.commands_arrived,
    FrameArrived: arrivals.frame_arrived,
    FrameLost: arrivals.frame_lost,
    FetchProgressed: _fetch_progressed,
    BlobFetched: fetching.blob_fetched,
    FetchFailed: fetching.fetch_failed,
    BlobsRemoved: fetching.blobs_removed,
    SegmentsPrepared: loading.segments_prepared,
    PartitionReady: loading.partition_ready,
    LoadRefused: loading.load_refused,
    PartitionGone: loading.partition_gone,
    TaskExecuted: tasks.task_executed,
    ExecutionFailed: tasks.execution_failed,
    TelemetryRead: _telemetry_read,
    Ticked: _ticked,
    StopAsked: connecting.stop_asked,
}
