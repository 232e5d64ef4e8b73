"""Everything that one agent knows: the parts that its rules read and change.

Holds no rules itself beyond what every rule needs: telling the shell, and reporting an event.
"""

from __future__ import annotations

from collections import Counter

from edge_agent import __version__
from edge_agent.machine.records.cache import Cache
from edge_agent.machine.records.eventlog import EventLog
from edge_agent.machine.records.fetches import Fetches
from edge_agent.machine.records.held import Held
from edge_agent.machine.records.instructions import Instruction, SendFrame
from edge_agent.machine.records.limits import AgentLimits
from edge_agent.machine.records.pace import Pace
from edge_agent.machine.records.partitions import Partition, Partitions
from edge_agent.machine.records.publication import ResidencyBook, TelemetryBook
from edge_agent.machine.records.remembered import Remembered
from edge_agent.machine.records.seat import Seat
from edge_agent.machine.records.transitions import Life
from wire import WIRE_VERSION
from wire.ids import ActivationId
from wire.messages.assignment import Assignment, Limits
from wire.messages.events import DeviceEvent
from wire.messages.residency import Failure
from wire.messages.state import Capabilities, DeviceState, Status

Work = tuple[str, int, int, int]  # run, item, first and last segment
Wish = tuple[str, tuple[int, int]]  # to whom, and the stamp of the assignment it was asked under


class Agent:
    """`counts` tells what was ignored or dropped, by a word each, for whoever watches.

    Memories are bounded. Forgetting a finished task costs computing a late duplicate again;
    forgetting a cancelled run costs computing its late frames; forgetting an early `open` or
    `send` costs the orchestrator's asking again.
    """

    def __init__(self, device: str, capabilities: Capabilities, limits: AgentLimits) -> None:
        self.device = device
        self.capabilities = capabilities
        self.limits = limits
        self.life = Life("agent", device, "new")
        self.boot = ""
        self.predecessor: str | None = None  # whose retained state we found at first
        self.connection = ""
        self.now = 0.0
        self.generation = 0
        self.orchestrator_connection = ""
        self.assignment: Assignment | None = None
        self.cache = Cache(capabilities.disk_budget_nbytes)
        self.fetches = Fetches(limits)
        self.partitions = Partitions()
        self.seat = Seat()
        self.pace = Pace(limits)
        self.held = Held()
        self.log = EventLog(limits.log_events, limits.batch_events)
        self.finished: Remembered[Work, int] = Remembered(limits.remembered)
        self.opened: Remembered[ActivationId, bool] = Remembered(limits.remembered)
        self.wishes: Remembered[ActivationId, Wish] = Remembered(limits.remembered)
        self.cancelled: Remembered[tuple[str, int | None], bool] = Remembered(limits.remembered)
        self.runs: Remembered[str, int] = Remembered(limits.remembered_runs)
        self.arrivals = 0
        self.unsent: dict[tuple[ActivationId, str], None] = {}
        self.residency = ResidencyBook(limits)
        self.telemetry = TelemetryBook(limits)
        self.repeat_at: float | None = None
        self.unsaid_since: float | None = None  # the first event that waits to be published
        self.noted_seq, self.noted_at = 0, 0.0  # the newest event, and when it was seen first
        self.stop_by: float | None = None
        self.stop_reason = ""
        self.failure: Failure | None = None  # why the agent cannot go on, if it cannot
        self.touched_at = 0.0
        self.inventory_due = False
        self.inventory_after_removal = False
        self.counts: Counter[str] = Counter()
        self.out: list[Instruction] = []

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
        """Generation and revision of the assignment that is obeyed."""
        return self.assignment.stamp if self.assignment else (0, 0)

    @property
    def early_limits(self) -> Limits:
        return self.assignment.limits if self.assignment else Limits()

    def meet(self, generation: int) -> None:
        """Whatever tells first of a newer generation: its orchestrator is to know what is here."""
        if generation > self.generation:
            self.generation, self.inventory_due = generation, True

    def tell(self, instruction: Instruction) -> None:
        self.out.append(instruction)

    def report(self, event: DeviceEvent) -> None:
        self.log.append(event)

    def send(self, activation: ActivationId, to: str) -> None:
        """Now, or as soon as there is a connection; bounded by the outputs held."""
        if self.online:
            self.tell(SendFrame(activation, to))
        else:
            self.unsent[activation, to] = None

    def unsend(self, activation: ActivationId) -> None:
        for pair in [pair for pair in self.unsent if pair[0] == activation]:
            del self.unsent[pair]

    def order_of(self, run: str) -> int:
        """Runs are served in the order in which their first frame came."""
        order = self.runs.get(run)
        if order is None:
            self.arrivals += 1
            order = self.arrivals
        self.runs.put(run, order)
        return order

    def is_cancelled(self, activation: ActivationId) -> bool:
        run, item = activation.run, activation.item
        return (run, None) in self.cancelled or (run, item) in self.cancelled

    def pinned(self) -> set[str]:
        """Blobs that must stay on disk: of what is listed, and of what is in memory."""
        seated = self.seat.occupant.blobs if self.seat.occupant else ()
        return self.partitions.pinned() | {blob.digest for blob in seated}

    def seated(self) -> Partition | None:
        """The record of what is in memory, loading or leaving."""
        partition = self.seat.partition
        return self.partitions.get(partition) if partition else None

    def state(self, status: Status, reason: str | None = None) -> DeviceState:
        return DeviceState(
            status=status,
            connection=self.connection,
            boot=self.boot,
            agent_version=__version__,
            wire_version=WIRE_VERSION,
            capabilities=self.capabilities,
            reason=reason,
        )
