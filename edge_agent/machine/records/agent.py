"""Everything that one agent knows: the records that its rules read and change.

Has no rules itself beyond what every rule needs: instructing the shell, reporting an event.
"""

from __future__ import annotations

from collections import Counter

from edge_agent import __version__
from edge_agent.machine.records.bounded_dict import BoundedDict
from edge_agent.machine.records.cache import Cache
from edge_agent.machine.records.cause import in_words
from edge_agent.machine.records.event_log import EventLog
from edge_agent.machine.records.fetches import Fetches
from edge_agent.machine.records.held_frames import HeldFrames
from edge_agent.machine.records.instructions import (
    ForgetFrame,
    Instruction,
    RememberGeneration,
    SendFrame,
)
from edge_agent.machine.records.limits import AgentLimits
from edge_agent.machine.records.pace import Pace
from edge_agent.machine.records.partitions import Key, Partition, Partitions
from edge_agent.machine.records.residency_schedule import ResidencySchedule
from edge_agent.machine.records.senders import Senders
from edge_agent.machine.records.slot import Slot
from edge_agent.machine.records.stranger_reports import OF_NO_USE, StrangerReports
from edge_agent.machine.records.telemetry_schedule import TelemetrySchedule
from edge_agent.machine.records.transitions import life_of
from wire.ids import ActivationId
from wire.lifecycle import Cause
from wire.messages.assignment import Assignment, Limits
from wire.messages.events import DeviceEvent, FrameDropped
from wire.messages.residency import Failure
from wire.messages.state import Capabilities, DeviceState, LastWork, Status
from wire.versions import OURS, WireRange

Work = tuple[str, int, int, int]  # run, item, first and last segment
SendTo = tuple[str, tuple[int, int]]  # whom, and the stamp of the assignment it was asked under


class Agent:
    """Memories of the past are bounded. Forgetting a finished task costs computing a late duplicate
    again; forgetting a cancelled run costs computing its late frames; forgetting an early `open`
    or `send` costs the orchestrator's asking again.
    """

    def __init__(
        self,
        device: str,
        capabilities: Capabilities,
        limits: AgentLimits,
        versions: WireRange = OURS,
    ) -> None:
        self.device = device
        self.capabilities = capabilities
        self.limits = limits
        self.versions = versions
        self.cause = Cause(in_words)  # of what is done now
        self.life = life_of("agent", device, "new", self.cause)
        self.boot = ""  # set from `Started` on
        self.last_work: LastWork | None = None  # of the boot before; set with `boot`
        self.predecessor: str | None = None  # boot whose retained state we found at first
        self.connection = ""  # the broker's last; set from the first `Connected` on
        self.now = 0.0  # of the event that is handled; never falls
        self.seen_inputs = 0  # the number of the last that arrived
        self.generation = 0  # the highest seen, in boots before too; never falls
        self.batch_stamp = (0, 0)  # generation and number of the commands obeyed last
        self.desk_heard_at = float("-inf")  # an order that was the desk's
        self.foreign = False  # the desk speaks a language that we do not
        self.complaint = ""  # why we obey nobody, for people
        self.orchestrator_connection = ""  # of the orchestrator seen last
        self.assignment: Assignment | None = None  # of the highest stamp seen
        self.dependents: dict[Key, tuple[str, ...]] = {}  # of `assignment`, by cut; none is empty
        self.cache = Cache(capabilities.disk_budget_nbytes)
        self.fetches = Fetches(limits)
        self.partitions = Partitions(self.cache, self.fetches, self.cause)
        self.senders = Senders()  # of `assignment`, and former ones
        self.stranger_reports = StrangerReports()
        self.slot = Slot(self.cache)
        self.pace = Pace(limits)
        self.held = HeldFrames(self.partitions.work_changed)
        self.log = EventLog(limits.log_events, limits.batch_events)
        # Attempts of tasks that were done here, under this generation.
        self.finished: BoundedDict[Work, int] = BoundedDict(limits.remembered)
        # Inputs that a barrier does not hold back, come or not, as this generation said.
        self.opened: BoundedDict[ActivationId, bool] = BoundedDict(limits.remembered)
        # Where to send outputs that are still computed.
        self.requested_sends: BoundedDict[ActivationId, SendTo] = BoundedDict(limits.remembered)
        # Runs, and items of runs, whose frames are refused, as this generation said.
        self.cancelled: BoundedDict[tuple[str, int | None], bool] = BoundedDict(limits.remembered)
        # Whom to send outputs that are held, once there is a connection; empty while online.
        self.queued_sends: dict[ActivationId, dict[str, None]] = {}
        self.residency = ResidencySchedule(limits)
        self.telemetry = TelemetrySchedule(limits)
        self.repeat_at: float | None = None  # when to say again what was not acknowledged
        self.stop_by: float | None = None  # set from the beginning of the end on
        self.stop_reason = ""  # set with `stop_by`
        self.failure: Failure | None = None  # why the agent cannot go on, if it cannot
        self.touched_at = 0.0  # when frames came, went, or were all told
        self.inventory_due = False  # to be reported as soon as there is a connection
        self.inventory_after_removal = False  # the same, once nothing is being removed
        # What was ignored, dropped or failed, by a word each, for whoever watches.
        self.counts: Counter[str] = Counter()
        self.instructions: list[Instruction] = []  # of this event so far

    @property
    def online(self) -> bool:
        return self.life.state == "online"

    @property
    def ended(self) -> bool:
        return self.life.state in ("replaced", "stopped")

    @property
    def stopping(self) -> bool:
        return self.stop_by is not None

    @property
    def stamp(self) -> tuple[int, int]:
        """Generation and revision of the assignment that is served."""
        return self.assignment.stamp if self.assignment else (0, 0)

    @property
    def early_limits(self) -> Limits:
        return self.assignment.limits if self.assignment else Limits()

    def note_generation(self, generation: int) -> None:
        """The first sign of a newer generation: its orchestrator needs our inventory. Its journal
        may be an older one, a restored backup's, so that what was done, cancelled or opened under
        another generation proves nothing of what it asks for."""
        if generation > self.generation:
            self.generation, self.inventory_due = generation, True
            self.instruct(RememberGeneration(generation))
            for memory in (self.finished, self.cancelled, self.opened):
                memory.clear()

    def obey(self, assignment: Assignment) -> None:
        """Serve this assignment from now on; `partitions` takes over its list separately."""
        self.assignment = assignment
        self.senders.list_anew(assignment.partitions)
        self.note_generation(assignment.generation)
        self.dependents = {}
        for route in assignment.routes:
            if route.dependents:
                self.dependents.setdefault((route.model, route.exact, route.cut), route.dependents)

    def instruct(self, instruction: Instruction) -> None:
        self.instructions.append(instruction)

    def forget_input(self, activation: ActivationId, sender: str | None = None) -> None:
        """Its copies of `sender`, or of everybody, that we know of."""
        self.instruct(ForgetFrame(activation, "input", sender, self.seen_inputs))

    def report(self, event: DeviceEvent) -> None:
        self.log.append(event, self.now)

    def report_drop(self, event: FrameDropped) -> None:
        """A stranger's, of which nobody could make use, only now and then."""
        strange = event.kind in OF_NO_USE and not self.senders.knows(event.sender)
        if strange and not self.stranger_reports.may(self.now):
            self.counts["unsaid_drops"] += 1
        else:
            self.report(event)

    def send(self, activation: ActivationId, to: str) -> None:
        """Send an output now, or as soon as there is a connection."""
        if self.online:
            self.instruct(SendFrame(activation, to))
        else:
            self.queued_sends.setdefault(activation, {})[to] = None

    def cancel_sends(self, activation: ActivationId) -> None:
        self.queued_sends.pop(activation, None)

    def send_queued(self) -> None:
        """The connection is back: send what waited for it."""
        queued, self.queued_sends = self.queued_sends, {}
        for activation, parties in queued.items():
            for to in parties:
                self.instruct(SendFrame(activation, to))

    def is_cancelled(self, activation: ActivationId) -> bool:
        run, item = activation.run, activation.item
        return (run, None) in self.cancelled or (run, item) in self.cancelled

    def occupant(self) -> Partition | None:
        """The record of what is in memory, loading or leaving."""
        partition = self.slot.partition
        return self.partitions.get(partition) if partition else None

    def state(self, status: Status, reason: str | None = None) -> DeviceState:
        return DeviceState(
            status=status,
            connection=self.connection,
            boot=self.boot,
            agent_version=__version__,
            wire_version=self.versions.newest,
            oldest_wire_version=self.versions.oldest,
            capabilities=self.capabilities,
            reason=reason,
            last_work=self.last_work,
        )
