"""The agent's machine under any legal order of events: nothing lost or doubled, bounds kept."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edge_agent.machine.machine import AgentMachine
from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.limits import AgentLimits
from tests.support.agent_bench import CAPABILITIES, MIB, head, partition, route
from tests.support.effort import schedules
from tests.support.heard_log import HeardLog
from wire.ids import ActivationId
from wire.manifest import BlobRef
from wire.messages.assignment import Assignment, Limits, PartitionAssignment
from wire.messages.commands import (
    Acknowledge,
    Cancel,
    Command,
    CommandBatch,
    Evict,
    Open,
    Release,
    Report,
    Send,
)
from wire.messages.events import DeviceEvent, FrameDropped, TaskDone, TaskFailed

LIMITS = AgentLimits(
    log_events=30,
    batch_events=7,
    remembered=1000,
    frame_overhead_nbytes=0,
    load_floor_s=1e6,
    execute_floor_s=1e6,
    evict_s=1e6,
)
ROOM = replace(CAPABILITIES, disk_budget_nbytes=6000, hold_nbytes=3000)
OFFERS = (
    partition(0, 1, emits_nbytes=500),
    partition(2, 3, emits_nbytes=700, senders=("sender",)),
    partition(4, 5, emits_nbytes=500, senders=("other",)),
    partition(0, 3, emits_nbytes=500),
    partition(2, 3, weight_nbytes=900, emits_nbytes=500),
    partition(6, 6, weight_nbytes=70 * MIB, emits_nbytes=500),
)
ITEMS = st.integers(0, 4)
CUTS = st.sampled_from([0, 2, 4])
RUNS = st.sampled_from(["a", "b"])


class AnyOrder(RuleBasedStateMachine):
    """A shell that answers what it was told in any order, and keeps account of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = AgentMachine("phone", ROOM, LIMITS)
        self.log = HeardLog.of(self.machine)
        self.now = 0.0
        self.inputs: set[tuple[ActivationId, str]] = set()  # with their senders
        self.outputs: set[ActivationId] = set()
        self.fetching: dict[str, BlobRef] = {}
        self.cancelling: set[str] = set()
        self.removing: list[tuple[str, ...]] = []
        self.loaded: PartitionAssignment | None = None
        self.doing: told.Load | told.Unload | told.Execute | None = None
        self.group: list[told.TaskInput] = []  # of what is executed, those that were not answered
        self.disk: dict[str, int] = {}
        self.ended: set[ActivationId] = set()
        self.cancelled: set[str] = set()
        self.online = False
        self.stamp = 0
        self.connections = 0
        self.do(happened.Started("boot", {}))

    # what the shell does with instructions

    def do(self, event: happened.Event) -> None:
        instructions = self.machine.handle(event, self.now)
        self.machine.validate()
        self._account()
        for instruction in instructions:
            self._carry_out(instruction)

    def _account(self) -> None:
        for event in self.log.heard():
            self._note(event)

    def _note(self, event: DeviceEvent) -> None:
        if isinstance(event, FrameDropped):
            self.ended.add(event.activation)
        elif isinstance(event, (TaskDone, TaskFailed)):
            self.ended.add(event.task.needs)

    def _carry_out(self, instruction: told.Instruction) -> None:
        if isinstance(instruction, (told.Load, told.Unload, told.Execute)):
            self._take_slot(instruction)
        elif isinstance(instruction, told.FetchBlob):
            assert instruction.blob.digest not in self.fetching, "one fetch per digest"
            self.fetching[instruction.blob.digest] = instruction.blob
            assert len(self.fetching) <= LIMITS.parallel_fetches
        elif isinstance(instruction, told.CancelFetch):
            assert instruction.digest in self.fetching
            self.cancelling.add(instruction.digest)
        elif isinstance(instruction, told.RemoveBlobs):
            self._remove(instruction)
        elif isinstance(instruction, told.ForgetFrame):
            self._forget(instruction)
        elif isinstance(instruction, told.SendFrame):
            assert self.online, "nothing is sent while disconnected"
            assert instruction.activation in self.outputs, "only what is held can be sent"
        elif isinstance(instruction, told.PublishEvents):
            assert self.online
            assert len(instruction.batch.events) <= LIMITS.batch_events

    def _take_slot(self, instruction: told.Load | told.Unload | told.Execute) -> None:
        assert self.doing is None, "one thing at a time"
        if isinstance(instruction, told.Load):
            assert self.loaded is None, "two partitions in memory"
            assert all(self.disk[b.digest] == b.nbytes for b in instruction.assigned.blobs)
            self.loaded = instruction.assigned
        elif isinstance(instruction, told.Unload):
            assert self.loaded is not None
            assert instruction.partition == self.loaded.partition
        else:
            assert self.loaded is not None
            assert instruction.assigned.segments == self.loaded.segments
            copies = {(each.task.needs, each.sender) for each in instruction.group}
            assert copies <= self.inputs, "its input is held"
            self.group = list(instruction.group)
        self.doing = instruction

    def _remove(self, instruction: told.RemoveBlobs) -> None:
        used = {blob.digest for blob in self.loaded.blobs} if self.loaded else set()
        assert not used & set(instruction.digests), "what is loaded stays on disk"
        self.removing.append(instruction.digests)

    def _forget(self, instruction: told.ForgetFrame) -> None:
        name = instruction.activation
        if instruction.side == "input":
            known = name in self.ended or name in self.machine._agent.held.inputs
            assert known or name.run in self.cancelled, f"{name} was dropped silently"
            sender = instruction.sender
            self.inputs -= {each for each in self.inputs if _is_copy(each, name, sender)}
        else:
            self.outputs.discard(name)

    # what the world brings

    @rule(
        run=RUNS,
        item=ITEMS,
        cut=CUTS,
        attempt=st.integers(0, 2),
        barrier=st.booleans(),
        sender=st.sampled_from(["sender", "other"]),
    )
    def a_frame_arrives(
        self, run: str, item: int, cut: int, attempt: int, barrier: bool, sender: str
    ) -> None:
        frame = head(item, cut, run=run, attempt=attempt, barrier=barrier and run == "b")
        self.inputs.add((frame.activation, sender))
        self.do(happened.FrameArrived(frame, sender))

    @rule(listing=st.lists(st.sampled_from(OFFERS), max_size=3), older=st.integers(-1, 2))
    def an_assignment_arrives(self, listing: list[PartitionAssignment], older: int) -> None:
        stamp = max(1, self.stamp + older)
        self.stamp = max(self.stamp, stamp)
        unique = {entry.partition: entry for entry in listing}
        routes = (route(2, "x", "y"), route(6, "orchestrator")) if stamp % 2 else ()
        self.do(
            happened.AssignmentArrived(
                Assignment(1, stamp, "http://s", tuple(unique.values()), routes, Limits(1500, 5.0))
            )
        )

    @precondition(lambda self: self.fetching)
    @rule(which=st.integers(0, 1), how=st.sampled_from(["ok", "ok", "ok", "retry", "missing"]))
    def a_fetch_ends(self, which: int, how: str) -> None:
        digest = sorted(self.fetching)[which % len(self.fetching)]
        blob = self.fetching.pop(digest)
        cancelled = digest in self.cancelling
        self.cancelling.discard(digest)
        if how == "ok":
            self.disk[digest] = blob.nbytes
            self.do(happened.BlobFetched(digest, blob.nbytes, 0.1))
        elif cancelled:
            self.do(happened.FetchFailed(digest, "cancelled", "asked", False))
        else:
            self.do(happened.FetchFailed(digest, "blob_missing", how, how == "retry"))

    @precondition(lambda self: self.removing)
    @rule()
    def blobs_are_removed(self) -> None:
        digests = self.removing.pop(0)
        for digest in digests:
            del self.disk[digest]
        self.do(happened.BlobsRemoved(digests))

    @precondition(lambda self: self.doing)
    @rule(how=st.sampled_from(["well", "well", "well", "badly", "fatally"]))
    def what_is_under_way_ends(self, how: str) -> None:
        doing, self.doing = self.doing, None
        assert self.loaded is not None
        if isinstance(doing, told.Load):
            self._load_ends(doing, how)
        elif isinstance(doing, told.Unload):
            self.loaded = None
            self.do(happened.PartitionGone(doing.number, doing.partition, 0.0, 0))
        elif doing is not None:
            self._task_ends(doing, how)

    def _task_ends(self, doing: told.Execute, how: str) -> None:
        """The next one of the group; whatever ruins the partition is the last."""
        number, task = doing.number, self.group.pop(0).task
        if how == "fatally":
            self.loaded, self.group = None, []
        self.doing = doing if self.group else None
        if how == "well":
            self.outputs.add(task.makes)
            emitted = head(task.item, task.makes.cut, run=task.run)
            self.do(happened.TaskExecuted(number, task, emitted, 0.0, 0.0, 0.0, ()))
        else:
            fatal = how == "fatally"
            self.do(happened.ExecutionFailed(number, task, "compute_failed", "why", fatal))

    def _load_ends(self, load: told.Load, how: str) -> None:
        if how == "well":
            self.do(
                happened.PartitionReady(
                    load.number, load.assigned.partition, load.streamed, 0.0, 0, 0
                )
            )
            return
        self.loaded = None
        corrupt = (load.assigned.blobs[0].digest,) if how == "badly" else ()
        for digest in corrupt:
            del self.disk[digest]
        kind = "blob_corrupt" if corrupt else "load_failed"
        self.do(happened.LoadRefused(load.number, load.assigned.partition, kind, "why", corrupt))

    @rule()
    def the_connection_goes_or_comes(self) -> None:
        self.online = not self.online
        if not self.online:
            self.do(happened.Disconnected("gone"))
        else:
            self.connections += 1
            connection = f"c{self.connections}"
            self.do(happened.Connected(connection, self.connections > 1, None))

    def _command(self, *commands: Command) -> None:
        if self.online:
            self.do(happened.CommandsArrived(CommandBatch(1, commands)))

    @rule(run=RUNS, item=ITEMS, cut=CUTS)
    def an_output_is_asked_for(self, run: str, item: int, cut: int) -> None:
        self._command(Send(run, cut, (item,), "z"))

    @rule(run=RUNS, item=ITEMS, cut=CUTS)
    def an_output_is_released(self, run: str, item: int, cut: int) -> None:
        self._command(Release(run, cut, (item,)))

    @rule(cut=CUTS)
    def a_barrier_opens(self, cut: int) -> None:
        self._command(Open("b", cut, (0, 1, 2, 3, 4)))

    @rule(run=RUNS)
    def a_run_is_cancelled(self, run: str) -> None:
        if self.online:
            self.cancelled.add(run)
            self._command(Cancel(run))

    @rule(behind=st.integers(0, 5))
    def events_are_acknowledged(self, behind: int) -> None:
        self._command(Acknowledge("boot", max(0, self.log.last_seq - behind)), Report())

    @rule()
    def blobs_are_to_go(self) -> None:
        self._command(Evict(tuple(sorted(self.disk))))

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.do(happened.Ticked())

    # what holds at all times

    @invariant()
    def the_spool_is_what_the_machine_says(self) -> None:
        held = self.machine._agent.held
        running = {(each.task.needs, each.sender) for each in self.group}
        inputs = {(name, entry.sender) for name, entry in held.inputs.items()}
        assert inputs <= self.inputs <= inputs | running
        assert set(held.outputs) == self.outputs

    @invariant()
    def bounds_are_kept(self) -> None:
        agent = self.machine._agent
        entries = [*agent.held.inputs.values(), *agent.held.outputs.values()]
        assert agent.held.nbytes == sum(entry.head.nbytes for entry in entries)
        assert agent.held.nbytes <= ROOM.hold_nbytes
        assert agent.held.early_nbytes <= 1500 or agent.assignment is None
        on_disk = sum(self.disk.values()) + sum(b.nbytes for b in self.fetching.values())
        assert on_disk <= ROOM.disk_budget_nbytes

    @invariant()
    def a_wake_is_in_the_future(self) -> None:
        wake = self.machine.wake_at()
        assert wake is None or wake > self.now

    def teardown(self) -> None:
        """Once nothing fails any more, whatever may run has run."""
        if not self.online:
            self.the_connection_goes_or_comes()
        self.time_passes(10.0)
        for _ in range(200):
            self.time_passes(0.5)  # an input waits a while for room for its output, then goes
            self.a_barrier_opens(0)
            self.a_barrier_opens(2)
            self.a_barrier_opens(4)
            self.events_are_acknowledged(0)
            if self.fetching:
                self.a_fetch_ends(0, "ok")
            if self.removing:
                self.blobs_are_removed()
            if self.doing:
                self.what_is_under_way_ends("well")
            self.the_spool_is_what_the_machine_says()
        assert [self.doing, self.fetching, self.removing] == [None, {}, []], "it comes to rest"
        agent = self.machine._agent
        for record in agent.partitions.listed():
            if record.life.state != "failed" and agent.partitions.taking(record.key) is record:
                assert record.key not in agent.held.queues, "work is left undone"


def _is_copy(copy: tuple[ActivationId, str], name: ActivationId, sender: str | None) -> bool:
    return copy[0] == name and sender in (None, copy[1])


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = schedules(60, steps=60)
