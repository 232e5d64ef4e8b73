"""An agent's shell without a device: a disk that survives, a memory that holds one partition, a
spool of hashes. Checks what only the shell can see: one resident partition, verified blobs, no
output gone before it was released. One file, over four hundred lines, as it stands for one process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from edge_agent.machine.machine import AgentMachine
from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.limits import AgentLimits
from tests.simulation.network import Message
from tests.simulation.standstill import Standstill
from tests.simulation.surroundings import Surroundings
from tests.simulation.virtual_courier import VirtualCourier
from tests.simulation.virtual_executor import Slot, VirtualExecutor, about
from tests.support.heard_log import HeardLog
from wire import record
from wire.frame_head import FrameHead
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages import commands as cmd
from wire.messages import events as dev
from wire.messages.assignment import Assignment, PartitionAssignment
from wire.messages.commands import CommandBatch
from wire.messages.events import EventBatch
from wire.messages.residency import Residency
from wire.messages.state import Capabilities, DeviceState, LastWork, OrchestratorState
from wire.messages.telemetry import Telemetry

LIMITS = AgentLimits(
    load_floor_s=20.0,
    execute_floor_s=20.0,
    evict_s=20.0,
    patience=2.0,
    group_s=1.0,  # several tasks in one go, as long as they take here
    group_tasks=4,
)
TOGETHER = (happened.FrameArrived, happened.TaskExecuted, happened.CommandsArrived)
TOGETHER_S = 0.002  # so long some of these wait for what comes next
SUPERVISED_S = 3.0  # until a process that ended by itself is started again
COMPUTE_S = 0.02
TIMER_S = 1e-6  # no timer is finer: less may be left, after a clock has jumped, than it can tell
TELEMETRY_S = 10.0
RECONNECT_S = 1.0


class VirtualAgent:
    def __init__(
        self,
        world: Surroundings,
        name: str,
        capabilities: Capabilities,
        clock_offset_s: float = 0.0,
        fetch_s: float = 0.2,
        load_s: float = 0.05,
        compute_s: float = COMPUTE_S,
    ) -> None:
        self.world, self.name, self.capabilities = world, name, capabilities
        self.offset_s = clock_offset_s
        self.fetch_s, self.load_s, self.compute_s = fetch_s, load_s, compute_s
        self.disk: dict[str, int] = {}
        self.note: LastWork | None = None  # on disk too
        self.obeyed = 0  # the highest generation; on disk too
        self.deaths: list[float] = []  # when it ended over its work
        self.boots = self.connections = 0
        self.together_share = 0.0  # of what happens, to be handled with what happens next
        self.supervised = True  # started again when it ends by itself
        self.boot = self.met = ""
        self.running = False
        self.connected = False
        self.faults: list[str] = []
        self.seen: Counter[str] = Counter()
        self.history: list[tuple[float, dev.DeviceEvent]] = []
        self.up_since: float | None = None
        self.courier = VirtualCourier(world.clock, self, world.part_nbytes)
        self.still = Standstill(world.clock)
        self._forget_process()

    def _forget_process(self) -> None:
        self.still.forget()
        self.machine = AgentMachine(self.name, self.capabilities, LIMITS)
        self.log = HeardLog.of(self.machine)
        self.inputs = 0  # put into the spool so far
        self.put_as: dict[tuple[ActivationId, str], int] = {}  # the number of each input there
        self.breaks = False  # the connection was lost amid what is being carried out
        self.come: list[happened.Event] = []  # not handled yet
        self.courier.close()
        self.courier = VirtualCourier(self.world.clock, self, self.world.part_nbytes)
        self.generation = self.obeyed
        self.spool: dict[Slot, tuple[str, FrameHead]] = {}
        self.executor = VirtualExecutor(self)
        self.fetching: dict[str, int] = {}
        self.fetches = 0
        self.released: set[ActivationId] = set()
        self.cancelled: list[cmd.Cancel] = []
        self.tick = 0

    # life

    def start(self) -> None:
        """A fresh process on what the disk has."""
        self.boots += 1
        self.running = True
        self._forget_process()
        self.boot = f"{self.name}-boot{self.boots}"
        last_work, self.note = self.note, LastWork(self.boot)
        self.feed(happened.Started(self.boot, dict(self.disk), last_work, self.obeyed))
        self.later(0.05, self.connect)
        self.later(TELEMETRY_S, self._beat)

    def crash(self) -> None:
        """The process is gone, and with it everything but the disk."""
        self.running = self.connected = False
        self.boots += 1  # what was under way belongs to nobody
        self.still.forget()
        self.world.broker.drop(self.name)

    def dies_of(self, work: TaskId | PartitionId) -> bool:
        """Whether this ends the process that does it."""
        return self.world.ends(self.name, work)

    def die(self) -> None:
        """Over its work; what supervises it starts it again."""
        self.deaths.append(self.world.clock.now)
        self.crash()
        self._restart_later()

    def _restart_later(self) -> None:
        boots, clock = self.boots, self.world.clock
        if not self.supervised:
            return
        clock.later(SUPERVISED_S, lambda: self.start() if boots == self.boots else None)

    def connect(self) -> None:
        if self.connected:
            return
        self.connections += 1
        connection = f"{self.name}-c{self.connections}"
        first = self.met != self.boot
        self.met = self.boot
        will = DeviceState("offline", connection, self.boot, "0", 1, None, "its will")
        topic = f"state/{self.name}"
        kept = self.world.broker.retained.get(topic)
        self.connected = True
        self.world.broker.connect(
            self.name, self._receive, Message(topic, record.encode(will)), clean=first
        )
        self.courier.connected()
        own = record.decode(DeviceState, kept.payload) if kept else None
        self.feed(happened.Connected(connection, not first, own))

    def disconnect(self, away_s: float = RECONNECT_S, silently: bool = False) -> None:
        """The link fails; `silently`: the broker only notices when we are back."""
        if not (self.running and self.connected):
            return
        self.connected = False
        session = self.world.broker.sessions.get(self.name)
        if silently and session is not None:
            session.online = False
        else:
            self.world.broker.drop(self.name)
        self.courier.disconnected()
        self.feed(happened.Disconnected("the link failed"))
        self.later(away_s, self.connect)

    def lose_broker(self) -> None:
        if self.running and self.connected:
            self.connected = False
            self.courier.disconnected()
            self.feed(happened.Disconnected("the broker is gone"))
            self.later(RECONNECT_S + self.world.random.random(), self.connect)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Unless this process is gone by then."""
        boots = self.boots
        self.world.clock.later(
            seconds, lambda: self.still.run(lambda: act() if boots == self.boots else None)
        )

    @property
    def random(self) -> Random:
        return self.world.random

    @property
    def memory(self) -> PartitionAssignment | None:
        return self.executor.memory

    def _beat(self) -> None:
        self.feed(
            happened.TelemetryRead(
                Telemetry(
                    connection="",
                    uptime_s=self.world.clock.now,
                    rss_nbytes=1,
                    rss_peak_nbytes=1,
                    rss_floor_nbytes=1,
                    queue_depth=0,
                    held_nbytes=0,
                    battery_percent=90.0,
                )
            )
        )
        self.later(TELEMETRY_S, self._beat)

    # the machine

    @property
    def now(self) -> float:
        return self.world.clock.now + self.offset_s

    def jump_clock(self, seconds: float) -> None:
        """Its clock is another by so much; none goes back while a process runs, or below 0."""
        by = abs(seconds) if self.running else seconds
        self.offset_s = max(self.offset_s + by, -self.world.clock.now)
        self.feed(happened.Ticked())

    def feed(self, event: happened.Event) -> None:
        """Handled now, or with what comes next."""
        if not self.running:
            return
        self.seen[type(event).__name__] += 1
        self.come.append(event)
        if isinstance(event, TOGETHER) and self._waits_for_more():
            self.later(TOGETHER_S, self._turn)
        else:
            self._turn()

    def _waits_for_more(self) -> bool:
        return self.together_share > 0 and self.random.random() < self.together_share

    def _turn(self) -> None:
        events, self.come = self.come, []
        if not (self.running and events):
            return
        instructions = self.machine.handle_all(events, self.now)
        self.breaks = any(isinstance(event, happened.Disconnected) for event in events)
        if self.world.is_to_validate():
            self.machine.validate()
        self._check_reports(events, self._note_events())
        for instruction in instructions:
            getattr(self, f"_do_{type(instruction).__name__}")(instruction)
        self._set_alarm(all(isinstance(event, happened.Ticked) for event in events))

    def _note_events(self) -> list[dev.DeviceEvent]:
        heard = self.log.heard()
        self.history += [(self.world.clock.now, event) for event in heard]
        return heard

    def _check_reports(self, events: list[happened.Event], said: list[dev.DeviceEvent]) -> None:
        """Rule 6: it says what it holds after a (re)connect and to a new generation, by itself."""
        generation = max(map(_generation_in, events))
        anew = any(isinstance(each, happened.Connected | happened.StateCleared) for each in events)
        news = generation > self.generation or anew
        self.generation = max(self.generation, generation)
        if news and self.connected and self.running:
            told_all = any(isinstance(each, dev.Inventory) for each in said)
            assert told_all, f"{self.name} does not say what it holds after {events}"

    def _set_alarm(self, ticked: bool) -> None:
        wake = self.machine.wake_at()
        self.tick += 1
        if wake is None:
            return
        assert not ticked or wake > self.now, f"{self.name} wants to be woken again at once"
        tick = self.tick
        self.later(
            max(TIMER_S, wake - self.now),
            lambda: self.feed(happened.Ticked()) if tick == self.tick else None,
        )

    # what comes

    def _receive(self, message: Message) -> None:
        boots = self.boots
        self.still.run(lambda: self._take_in(message) if boots == self.boots else None)

    def _take_in(self, message: Message) -> None:
        if not self.running:
            return
        if message.payload is None:
            if message.kind == "state":
                self.feed(happened.StateCleared())
        elif message.kind == "state":
            pass  # our own words
        elif message.kind == "data":
            self.courier.receive(*message.payload)
        elif message.kind == "assignment":
            assignment = record.decode(Assignment, message.payload)
            self.feed(happened.AssignmentArrived(assignment))
        elif message.kind == "orchestrator":
            state = record.decode(OrchestratorState, message.payload)
            self.feed(happened.OrchestratorSeen(state, message.retained))
        elif message.kind == "commands":
            self._commands(record.decode(CommandBatch, message.payload))

    def _commands(self, batch: CommandBatch) -> None:
        for command in batch.commands:
            if isinstance(command, cmd.Release):
                self.released |= {
                    ActivationId(command.run, item, command.cut) for item in command.items
                }
            elif isinstance(command, cmd.Cancel):
                self.cancelled.append(command)
        self.feed(happened.CommandsArrived(batch))

    # the courier's owner

    def say(self, to: str, payload: bytes) -> None:
        """What is said while disconnected is as good as lost."""
        if self.connected:
            self.world.broker.publish(self.name, f"data/{to}", (self.name, payload))

    def take(self, sender: str, head: FrameHead, value: str) -> None:
        slot = (head.activation, f"input of {sender}")
        others = sum(each.nbytes for at, (_, each) in self.spool.items() if at != slot)
        if others + head.nbytes > self.capabilities.hold_nbytes:
            self.lose(sender, head.activation, happened.NO_ROOM, "the spool is full")
            return
        self.inputs += 1
        self.spool[slot], self.put_as[slot] = (value, head), self.inputs
        self.world.received(self.name, head.activation)
        self.feed(happened.FrameArrived(head, sender, self.inputs))

    def lose(self, sender: str, activation: ActivationId, kind: str, reason: str) -> None:
        self.feed(happened.FrameLost(activation, kind, reason, sender or self.name))

    # what is told

    def _do_FetchBlob(self, each: told.FetchBlob) -> None:  # noqa: N802 (named as the instruction)
        digest = each.blob.digest
        assert digest not in self.fetching, "one fetch per digest"
        self.fetches += 1
        token = self.fetching[digest] = self.fetches
        self.later(about(self.world.random, self.fetch_s), lambda: self._fetched(each, token))

    def _fetched(self, each: told.FetchBlob, token: int) -> None:
        digest = each.blob.digest
        if self.fetching.get(digest) != token:
            return
        del self.fetching[digest]
        if not self.world.store_up:
            self.feed(happened.FetchFailed(digest, "store_unreachable", "it is down", True))
            return
        self.disk[digest] = each.blob.nbytes
        self.feed(happened.BlobFetched(digest, each.blob.nbytes, self.fetch_s))

    def _do_CancelFetch(self, each: told.CancelFetch) -> None:  # noqa: N802
        if self.fetching.pop(each.digest, None) is not None:
            cancelled = happened.FetchFailed(each.digest, "cancelled", "as asked", False)
            self.later(0.001, lambda: self.feed(cancelled))

    def _do_RemoveBlobs(self, each: told.RemoveBlobs) -> None:  # noqa: N802
        for digest in each.digests:
            del self.disk[digest]
        self.later(0.001, lambda: self.feed(happened.BlobsRemoved(each.digests)))

    def _do_Load(self, each: told.Load) -> None:  # noqa: N802
        self.executor.load(each)

    def _do_Unload(self, each: told.Unload) -> None:  # noqa: N802
        self.executor.unload(each)

    def _do_Execute(self, each: told.Execute) -> None:  # noqa: N802
        self.executor.execute(each)

    def _do_SendFrame(self, each: told.SendFrame) -> None:  # noqa: N802
        value, head = self.spool[each.activation, "output"]
        self.world.check_sent(value, each.activation)
        assert self.connected or self.breaks, f"{self.name} sends {each.activation} disconnected"
        self.courier.send(each.to, head, value)

    def _do_ForgetFrame(self, each: told.ForgetFrame) -> None:  # noqa: N802
        if each.side == "input":
            self._forget_inputs(each)
            return
        gone = self.spool.pop((each.activation, each.side), None)
        if gone is not None:
            self.courier.forget(each.activation, gone[1].attempt)
            late = self.machine._agent.slot.stuck
            assert late or self._may_go(each.activation), f"{each.activation} was not released"

    def _forget_inputs(self, each: told.ForgetFrame) -> None:
        """One sender's copy, or all."""
        side = "input of " if each.sender is None else f"input of {each.sender}"
        for at, name in list(self.spool):
            ours = name == side or (each.sender is None and name != "output")
            if at == each.activation and ours and self.put_as[at, name] <= each.number:
                del self.spool[at, name]

    def _may_go(self, activation: ActivationId) -> bool:
        run, item = activation.run, activation.item
        return activation in self.released or any(
            command.run == run and (not command.items or item in command.items)
            for command in self.cancelled
        )

    def _do_ObeyAssignment(self, each: told.ObeyAssignment) -> None:  # noqa: N802
        """Limits are for a real spool."""

    def _do_RememberGeneration(self, each: told.RememberGeneration) -> None:  # noqa: N802
        self.obeyed = each.generation

    def _do_PublishState(self, each: told.PublishState) -> None:  # noqa: N802
        self._publish(f"state/{self.name}", record.encode(each.state), keep=True)

    def _do_PublishResidency(self, each: told.PublishResidency) -> None:  # noqa: N802
        again = record.decode(Residency, record.encode(each.residency))
        assert again == each.residency
        self._publish(f"residency/{self.name}", record.encode(each.residency), keep=True)

    def _do_PublishEvents(self, each: told.PublishEvents) -> None:  # noqa: N802
        payload = record.encode(each.batch)
        assert record.decode(EventBatch, payload) == each.batch
        self._publish(f"events/{self.name}", payload)

    def _do_PublishTelemetry(self, each: told.PublishTelemetry) -> None:  # noqa: N802
        self._publish(f"telemetry/{self.name}", record.encode(each.telemetry), keep=True)

    def _publish(self, topic: str, payload: object, keep: bool = False) -> None:
        assert self.connected, f"{self.name} says {topic} while disconnected"
        self.world.broker.publish(self.name, topic, payload, keep)

    def _do_StayDisconnected(self, each: told.StayDisconnected) -> None:  # noqa: N802
        raise AssertionError(f"{self.name} believes that it was replaced")

    def _do_Stop(self, each: told.Stop) -> None:  # noqa: N802
        self.running = self.connected = False
        self.note = LastWork(self.boot)  # it ends in order
        self.boots += 1
        self.world.broker.drop(self.name, gracefully=True)

    def _do_GiveUp(self, each: told.GiveUp) -> None:  # noqa: N802
        assert each.reason
        self._do_Stop(told.Stop(each.reason))
        self._restart_later()

    # what must hold

    @property
    def useful(self) -> bool:
        """Nothing that anybody could see keeps it from work."""
        linked = self.connected and self.world.broker.is_online(self.name)
        agent = self.machine._agent
        able = self.running and not self.still.lasts
        return able and linked and not agent.stopping and not self.faults

    def check(self) -> None:
        if not self.useful:
            self.up_since = None
        elif self.up_since is None:
            self.up_since = self.world.clock.now
        if not self.running:
            return
        agent = self.machine._agent
        arrived = [each.head for each in self.come if isinstance(each, happened.FrameArrived)]
        unseen = sum(head.nbytes for head in arrived)  # they may lie where an output has its room
        spooled = sum(head.nbytes for _, head in self.spool.values())
        assert spooled - unseen <= self.capabilities.hold_nbytes, f"{self.name}'s spool overflows"
        quiet = not (self.executor.busy or agent.stopping or self.come)
        if self.memory is not None and quiet:
            assert self._is_listed(self.machine.assignment), f"{self.name} keeps what is unlisted"
        assert agent.held.nbytes <= self.capabilities.hold_nbytes, f"{self.name} holds too much"
        assert sum(self.disk.values()) <= self.capabilities.disk_budget_nbytes
        assert len(agent.log) <= agent.limits.log_events
        held = {(name, "output") for name in agent.held.outputs}
        inputs = agent.held.inputs
        held |= {(name, f"input of {entry.sender}") for name, entry in inputs.items()}
        needs = {task.needs for task in agent.slot.running}
        left = [slot for slot in self.spool.keys() - held if slot[0] not in needs]
        lacking = held - self.spool.keys()
        assert not lacking, f"{self.name}'s spool lacks {lacking}"
        assert self.come or not left, f"{self.name}'s spool leaks {left}"

    def _is_listed(self, assignment: Assignment | None) -> bool:
        """Whether what is in memory is what this assignment lists."""
        listed = assignment.partitions if assignment is not None else ()
        memory = self.memory
        return memory is None or any(
            (memory.partition, memory.segments) == (entry.partition, entry.segments)
            for entry in listed
        )

    def at_rest(self, wanted: Assignment | None, generation: int) -> bool:
        """Nothing of any item is left here, and nothing in memory that is not wanted. What an
        orchestrator before listed stays until the next one has something to say."""
        obeyed = self.machine.assignment
        current = obeyed is not None and obeyed.generation == generation
        unwanted = (wanted is not None or current) and not self._is_listed(wanted)
        return not self.running or not (self.spool or unwanted)


def _generation_in(event: happened.Event) -> int:
    if isinstance(event, happened.AssignmentArrived):
        return event.assignment.generation
    if isinstance(event, happened.CommandsArrived):
        return event.batch.generation
    return event.state.generation if isinstance(event, happened.OrchestratorSeen) else 0
