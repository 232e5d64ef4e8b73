"""A made-up agent, as simple as the protocol allows.

It fetches, loads one partition at a time, computes, forwards, and repeats events until these are
acknowledged. No bytes exist; what it says goes into its world's queue. One file, over four hundred
lines, as it stands for one agent: each command and each event of the protocol once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from orchestrator.machine.records import events as ev
from tests.support.tiny_manifest import MB
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages import commands as cmd
from wire.messages import events as dev
from wire.messages.assignment import Assignment, PartitionAssignment
from wire.messages.residency import Failure, PartitionResidency, Residency
from wire.messages.state import Capabilities, DeviceState, LastWork
from wire.messages.telemetry import Telemetry

if TYPE_CHECKING:
    from tests.support.fake_fleet import World

HOP_S = 0.005
AWAY_S = 2.0
GATHER_S = 0.03


@dataclass
class FakeAgent:
    """`compute_s` per segment, `fetch_s` and `load_s` per partition. `fail_task(task)` and
    `fail_load(partition)` may give a failure; who `dies_of` a task is there again
    after `AWAY_S`; `mute` swallows all it would say, without `beats`
    it sends no telemetry by itself. Who is `brief` gathers what only informs, and tells of a task
    that ends meanwhile only its end."""

    world: World
    name: str
    budget: int = 100 * MB
    hold: int = 100 * MB
    compute_s: float = 0.02
    fetch_s: float = 0.2
    load_s: float = 0.05
    max_opset: int = 21
    online: bool = False
    mute: bool = False
    beats: bool = True
    brief: bool = False
    wire: tuple[int, int] = (1, 1)
    boots: int = 0
    connections: int = 0
    fail_task: Callable[[TaskId], Failure | None] = lambda task: None
    fail_load: Callable[[PartitionId], Failure | None] = lambda partition: None
    dies_of: Callable[[TaskId], bool] = lambda task: False
    last_work: LastWork | None = None  # as it noted in the boot before
    drop_frame: Callable[[ActivationId], bool] = lambda activation: False
    assignment: Assignment | None = None
    cached: set[str] = field(default_factory=set)
    status: dict[PartitionId, PartitionResidency] = field(default_factory=dict)
    resident: PartitionId | None = None
    busy: bool = False
    inputs: dict[ActivationId, tuple[bool, int]] = field(default_factory=dict)
    outputs: dict[ActivationId, int] = field(default_factory=dict)
    finished: dict[TaskId, int] = field(default_factory=dict)
    cancelled: set[tuple[str, int | None]] = field(default_factory=set)
    barriers: set[str] = field(default_factory=set)
    parked: set[ActivationId] = field(default_factory=set)
    opened: set[ActivationId] = field(default_factory=set)
    running: TaskId | None = None
    seq: int = 0
    unacknowledged: list[dev.DeviceEvent] = field(default_factory=list)
    first_unacknowledged: int = 1
    gathered: list[dev.FrameReceived | dev.TaskStarted] = field(default_factory=list)
    history: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def boot(self) -> str:
        return f"{self.name}-b{self.boots}"

    @property
    def connection(self) -> str:
        return f"{self.name}-c{self.connections}"

    def state(self, status: str = "online") -> DeviceState:
        able = Capabilities(self.budget, 1000 * MB, self.hold, 4, "x86_64", "1.30", self.max_opset)
        return DeviceState(
            status,  # type: ignore[arg-type] # a literal
            self.connection,
            self.boot,
            "0",
            self.wire[1],
            able,
            last_work=self.last_work,
            oldest_wire_version=self.wire[0],
        )

    def start(self) -> None:
        """A new process: memory is empty, the cache is not."""
        self.boots += 1
        self.assignment, self.resident, self.busy, self.running = None, None, False, None
        for held in (self.inputs, self.outputs, self.status, self.parked, self.opened):
            held.clear()
        self.finished.clear()
        self.cancelled.clear()
        self.seq, self.first_unacknowledged = 0, 1
        self.unacknowledged.clear()
        self.gathered.clear()
        self.connect()

    def connect(self) -> None:
        self.connections += 1
        self.online = True
        self.say_state("online")
        self.say_telemetry()
        self.report()
        retained = self.world.retained.get(self.name)
        if retained is not None:
            self.world.later(HOP_S, lambda: self.obey(retained))

    def die(self) -> None:
        """The process ends, and its will comes at once."""
        self.say_state("offline")
        self.online = False
        self.boots += 1  # whatever it was doing is done no more

    def say_state(self, status: str) -> None:
        self.world.tell(ev.DeviceStateSeen(self.name, self.state(status), False))

    def say_telemetry(self, **readings: object) -> None:
        basics = Telemetry(self.connection, 1.0, 0, 0, 0, len(self.inputs), 0)
        readings.setdefault("cost_per_s", 1e9 / self.compute_s)
        told = replace(basics, **readings)  # type: ignore[arg-type] # checked there
        self.world.tell(ev.TelemetrySeen(self.name, told, False))

    def beat(self) -> None:
        if self.online and self.beats and not self.mute:
            self.say_telemetry()

    def inform(self, told: dev.FrameReceived | dev.TaskStarted) -> None:
        if not self.brief:
            self.say(told)
            return
        self.gathered.append(told)
        boot = self.boot
        self.world.later(GATHER_S, lambda: self.say() if boot == self.boot else None)

    def _gathered(self, told: tuple[dev.DeviceEvent, ...]) -> list[dev.DeviceEvent]:
        """All that waits and is not implied by what is told now."""
        done = {each.task.needs for each in told if isinstance(each, dev.TaskDone)}
        gathered, self.gathered = self.gathered, []
        return [each for each in gathered if _needs(each) not in done]

    def say(self, *now: dev.DeviceEvent) -> None:
        told = [*self._gathered(now), *now]
        for each in told:
            self.history.append((self.world.now, type(each).__name__, str(each)))
        self.unacknowledged.extend(told)
        self.seq += len(told)
        self.flush_events()

    def flush_events(self) -> None:
        if self.online and not self.mute and self.unacknowledged:
            batch = dev.EventBatch(
                self.boot, self.connection, self.first_unacknowledged, tuple(self.unacknowledged)
            )
            self.world.tell(ev.EventsArrived(self.name, batch))

    def report(self) -> None:
        stamp = self.assignment.stamp if self.assignment is not None else (0, 0)
        self.say(
            dev.Inventory(
                *stamp,
                tuple(sorted(self.outputs)),
                tuple(sorted(self.inputs)),
                self.running,
                tuple(sorted(self.cached)),
                tuple(self.status.values()),
            )
        )

    def say_residency(self) -> None:
        if self.assignment is None or not self.online or self.mute:
            return
        told = Residency(
            self.connection,
            *self.assignment.stamp,
            tuple(self.status.values()),
            len(self.cached),
            0,
        )
        self.world.tell(ev.ResidencySeen(self.name, told, False))

    def obey(self, assignment: Assignment) -> None:
        if not self.online or (self.assignment and assignment.stamp <= self.assignment.stamp):
            return
        self.assignment = assignment
        listed = {each.partition: each for each in assignment.partitions}
        self.status = {part: self.status[part] for part in self.status if part in listed}
        if self.resident not in listed:
            self.resident = None
        for part, each in listed.items():
            if part not in self.status:
                self._begin(each)
        self.say_residency()
        self._unpark()
        self._work()

    def _begin(self, each: PartitionAssignment) -> None:
        missing = [blob for blob in each.blobs if blob.digest not in self.cached]
        self._set(each, "fetching" if missing else "cached")
        if missing:
            nbytes = sum(blob.nbytes for blob in missing)
            self.say(dev.FetchStarted(each.partition, self.world.now, nbytes))
        boot = self.boot
        self.world.later(
            self.fetch_s if missing else 0.0, lambda: self._fetched(each, boot, bool(missing))
        )

    def _fetched(self, each: PartitionAssignment, boot: str, fetched: bool) -> None:
        if boot != self.boot or each.partition not in self.status:
            return
        self.cached.update(blob.digest for blob in each.blobs)
        failure = self.fail_load(each.partition)
        self._set(each, "failed" if failure else "cached", failure)
        self.say_residency()
        self._work()

    def _set(self, each: PartitionAssignment, status: str, failure: Failure | None = None) -> None:
        total = sum(blob.nbytes for blob in each.blobs)
        self.status[each.partition] = PartitionResidency(
            each.partition,
            each.model_name,
            status,  # type: ignore[arg-type] # a literal
            0 if status == "fetching" else total,
            total,
            failure=failure,
        )

    def frame(self, activation: ActivationId, sender: str, barrier: bool, attempt: int) -> None:
        if not self.online:
            return
        if self.drop_frame(activation):
            self.say(dev.FrameDropped(activation, "timed_out", "no room here", sender))
            return
        if {(activation.run, None), (activation.run, activation.item)} & self.cancelled:
            self.say(dev.FrameDropped(activation, "cancelled", "its item was cancelled", sender))
            return
        if not self._is_finished(activation, attempt):
            self.inputs[activation] = (barrier, attempt)
        self.inform(dev.FrameReceived(activation, sender, 100, self.world.now))
        self._work()

    def _is_finished(self, activation: ActivationId, attempt: int) -> bool:
        """Computed under this attempt or a later one: not computed again."""
        listed = self.assignment.partitions if self.assignment else ()
        return any(
            each.partition.first == activation.cut
            and self.finished.get(_task(activation, each), -1) >= attempt
            for each in listed
        )

    def _ready(self) -> list[tuple[PartitionAssignment, ActivationId]]:
        found = []
        for each in self.assignment.partitions if self.assignment else ():
            status = self.status.get(each.partition)
            for activation, (barrier, _) in self.inputs.items():
                waits = barrier and activation not in self.opened
                if (
                    activation.cut == each.partition.first
                    and not waits
                    and status is not None
                    and status.status in ("cached", "resident")
                ):
                    found.append((each, activation))
        return found

    def _work(self) -> None:
        if self.busy or not self.online or self.assignment is None:
            return
        idle = [
            each
            for each in self.assignment.partitions
            if self.resident is None and self.status[each.partition].status == "cached"
        ]
        ready = self._ready()
        mine = [pair for pair in ready if pair[0].partition == self.resident]
        if mine:
            self._compute(*min(mine, key=lambda pair: pair[1]))
        elif ready or idle:
            deepest = max((pair[0] for pair in ready), default=None, key=lambda e: e.partition)
            self._load(deepest or idle[0])

    def _load(self, each: PartitionAssignment) -> None:
        self.busy = True
        if self.resident is not None:
            before = next(e for e in self.assignment.partitions if e.partition == self.resident)  # type: ignore[union-attr] # just checked
            self._set(before, "cached")
            self.resident = None
        self._set(each, "loading")
        self.say_residency()
        boot = self.boot

        def done() -> None:
            if boot != self.boot:
                return
            self.busy = False
            if each.partition in self.status:
                self._set(each, "resident")
                self.resident = each.partition
                self.say(
                    dev.PartitionLoaded(
                        each.partition, each.tier, False, self.world.now, 0.0, 0, self.load_s, 1, 1
                    )
                )
                self.say_residency()
            self._work()

        self.world.later(self.load_s, done)

    def _compute(self, each: PartitionAssignment, activation: ActivationId) -> None:
        self.busy = True
        barrier, attempt = self.inputs[activation]
        task = replace(_task(activation, each), attempt=attempt)
        self.running = task
        self.inform(dev.TaskStarted(task, self.world.now))
        seconds, boot = self.compute_s * len(each.segments), self.boot

        def done() -> None:
            if boot == self.boot and self.dies_of(task):
                self.die()
                self.last_work = LastWork(boot, task=task)
                self.world.later(AWAY_S, self.start)
            elif boot == self.boot:
                self._done(each, task, barrier, seconds)

        self.world.later(seconds, done)

    def _done(self, each: PartitionAssignment, task: TaskId, barrier: bool, seconds: float) -> None:
        self.busy, self.running = False, None
        if self.inputs.pop(task.needs, None) is not None:  # else it was cancelled
            failure = self.fail_task(task)
            if failure is not None:
                self.say(dev.TaskFailed(task, failure.kind, failure.reason))
            else:
                self._made(task, barrier, seconds)
        self._work()

    def _made(self, task: TaskId, barrier: bool, seconds: float) -> None:
        made = task.makes
        self.outputs[made] = task.attempt
        self.finished[replace(task, attempt=0)] = task.attempt
        if barrier:
            self.barriers.add(made.run)
        to = self._dependent(made)
        self.say(
            dev.TaskDone(
                task, self.world.now, 0.0, 0.0, seconds, 0.0, 100, 100, 100, to is None, to
            )
        )
        if to is None:
            self.parked.add(made)
        else:
            self.send(made, to)

    def _dependent(self, made: ActivationId) -> str | None:
        for route in self.assignment.routes if self.assignment else ():
            if route.cut == made.cut and route.dependents:
                return route.dependents[made.item % len(route.dependents)]
        return None

    def _unpark(self) -> None:
        for made in sorted(self.parked):
            to = self._dependent(made)
            if to is not None:
                self.parked.discard(made)
                if made in self.outputs:
                    self.send(made, to)

    def send(self, activation: ActivationId, to: str) -> None:
        barrier = activation.run in self.barriers
        self.world.carry(self.name, activation, to, barrier, self.outputs[activation])

    def command(self, batch: cmd.CommandBatch) -> None:
        if not self.online:
            return
        for command in batch.commands:
            getattr(self, f"_on_{command.type}")(command)
        self._work()

    def _on_send(self, command: cmd.Send) -> None:
        for item in command.items:
            activation = ActivationId(command.run, item, command.cut)
            if activation in self.outputs:
                self.send(activation, command.to)
            else:
                self.say(dev.FrameDropped(activation, "not_held", "it is not here"))

    def _on_release(self, command: cmd.Release) -> None:
        for item in command.items:
            self.outputs.pop(ActivationId(command.run, item, command.cut), None)

    def _on_open(self, command: cmd.Open) -> None:
        self.opened |= {ActivationId(command.run, item, command.cut) for item in command.items}

    def _on_cancel(self, command: cmd.Cancel) -> None:
        def hit(at: ActivationId) -> bool:
            return at.run == command.run and (not command.items or at.item in command.items)

        self.inputs = {at: value for at, value in self.inputs.items() if not hit(at)}
        self.outputs = {at: attempt for at, attempt in self.outputs.items() if not hit(at)}
        self.cancelled |= {(command.run, item) for item in command.items or (None,)}
        self.parked = {at for at in self.parked if not hit(at)}

    def _on_report(self, command: cmd.Report) -> None:
        self.report()

    def _on_ping(self, command: cmd.Ping) -> None:
        self.say(dev.Pong(command.nonce, self.world.now + 1000.0))

    def _on_profile(self, command: cmd.Profile) -> None:
        count = command.partition.last - command.partition.first + 1
        self.say(dev.Profiled(command.partition, (self.compute_s,) * count))

    def _on_acknowledge(self, command: cmd.Acknowledge) -> None:
        if command.boot == self.boot and command.seq >= self.first_unacknowledged:
            del self.unacknowledged[: command.seq - self.first_unacknowledged + 1]
            self.first_unacknowledged = command.seq + 1


def _task(activation: ActivationId, each: PartitionAssignment) -> TaskId:
    part = each.partition
    return TaskId(activation.run, activation.item, part.first, part.last)


def _needs(told: dev.FrameReceived | dev.TaskStarted) -> ActivationId:
    return told.activation if isinstance(told, dev.FrameReceived) else told.task.needs
