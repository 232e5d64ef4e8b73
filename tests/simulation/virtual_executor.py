"""An executor's thread without ONNX Runtime: one partition in memory, one thing at a time, and
faults that it is told to have. Checks that it is asked for nothing impossible, nor for the same
twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol

from edge_agent.machine.machine import AgentMachine
from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from tests.simulation import tensors
from wire.frame_head import FrameHead
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages.assignment import PartitionAssignment
from wire.messages.state import LastWork

NEVER_S, LATE_S = 1e9, 27.0  # what hangs answers never, or while the agent drains
FRAME_NBYTES, FRAME_RAW_NBYTES = 6144, 2048  # at the bounds: what is reserved has to suffice
Slot = tuple[ActivationId, str]


def about(random: Random, seconds: float) -> float:
    return seconds * (0.5 + random.random())


class Process(Protocol):
    """What it needs of the process that it lives in."""

    name: str
    machine: AgentMachine
    faults: list[str]
    disk: dict[str, int]
    note: LastWork | None
    boot: str
    spool: dict[Slot, tuple[str, FrameHead]]
    load_s: float
    compute_s: float

    @property
    def random(self) -> Random: ...
    def dies_of(self, work: TaskId | PartitionId) -> bool: ...
    def die(self) -> None: ...
    def later(self, seconds: float, act: Callable[[], None]) -> None: ...
    def feed(self, event: happened.Event) -> None: ...


class VirtualExecutor:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.memory: PartitionAssignment | None = None
        self.busy = False
        self.computed: set[tuple[int, TaskId]] = set()  # with the generation that had it so
        self.groups: Counter[int] = Counter()  # how often so many tasks were begun in one go

    def load(self, each: told.Load) -> None:
        disk = self.process.disk
        assert self.memory is None, f"{self.process.name}: two partitions in memory"
        assert not self.busy
        assert all(disk.get(blob.digest) == blob.nbytes for blob in each.assigned.blobs)
        self.memory, self.busy = each.assigned, True
        partition = each.assigned.partition
        self.process.note = LastWork(self.process.boot, partition=partition)
        if self.process.dies_of(partition):
            self._lasting(self.process.load_s / 2, self.process.die)
            return
        self._lasting(self.process.load_s, lambda: self._loaded(each))

    def _loaded(self, each: told.Load) -> None:
        self._rest()
        partition, load_s = each.assigned.partition, self.process.load_s
        if self._has("rotten"):
            self.memory = None
            digest = each.assigned.blobs[-1].digest
            del self.process.disk[digest]
            rotten = happened.LoadRefused(each.number, partition, "blob_corrupt", "", (digest,))
            self.process.feed(rotten)
        elif self._has("refused"):
            self.memory = None
            refused = happened.LoadRefused(each.number, partition, "over_budget", "measured more")
            self.process.feed(refused)
        else:
            ready = happened.PartitionReady(each.number, partition, each.streamed, load_s, 1, 2)
            self.process.feed(ready)

    def unload(self, each: told.Unload) -> None:
        assert self.memory is not None
        assert self.memory.partition == each.partition
        assert not self.busy
        self.busy = True
        self._lasting(0.01, lambda: self._unloaded(each))

    def _unloaded(self, each: told.Unload) -> None:
        self.busy, self.memory = False, None
        self.process.feed(happened.PartitionGone(each.number, each.partition, 0.01, 1))

    def execute(self, each: told.Execute) -> None:
        assert self.memory is not None
        assert self.memory.partition == each.assigned.partition, "runs on what is loaded"
        assert not self.busy
        self.groups[len(each.group)] += 1
        for entry in each.group:
            once = (self.process.machine._agent.generation, entry.task)
            assert once not in self.computed, f"{self.process.name} computes {entry.task} again"
            assert (entry.task.needs, f"input of {entry.sender}") in self.process.spool
        self._next(each, each.group)

    def _next(self, each: told.Execute, rest: tuple[told.TaskInput, ...]) -> None:
        """One after another; what ruins the partition is the last."""
        if not rest or self.memory is None:
            return
        task = rest[0].task
        self.busy = True
        kept = self.process.spool.get((task.needs, f"input of {rest[0].sender}"))
        if kept is None:
            self._missed(each, rest)
            return
        value, head = kept
        self.process.note = LastWork(self.process.boot, task=task)
        if self.process.dies_of(task):
            self._lasting(self.process.compute_s / 2, self.process.die)
            return
        seconds = self.process.compute_s * (task.last - task.first + 1)
        self._lasting(seconds, lambda: self._executed(each, rest, value, head, seconds))

    def _missed(self, each: told.Execute, rest: tuple[told.TaskInput, ...]) -> None:
        """Its input was taken away: it was cancelled, or its group abandoned at its limit."""
        entry = self.process.machine._agent.held.inputs.get(rest[0].task.needs)
        runs = entry is not None and entry.life.state == "running"
        assert not runs, f"{self.process.name}: an input is gone"
        if len(rest) == 1:
            self._rest()
        gone = happened.ExecutionFailed(each.number, rest[0].task, "frame_missing", "", False)
        self.process.feed(gone)
        self._next(each, rest[1:])

    def _rest(self) -> None:
        self.busy, self.process.note = False, LastWork(self.process.boot)

    def _executed(
        self,
        each: told.Execute,
        rest: tuple[told.TaskInput, ...],
        value: str,
        head: FrameHead,
        seconds: float,
    ) -> None:
        if len(rest) == 1:
            self._rest()
        task = rest[0].task
        for fault in ("failing", "fatal"):
            if self._has(fault):
                fatal = fault == "fatal"
                if fatal:
                    self.memory = None
                    self._rest()
                failed = happened.ExecutionFailed(each.number, task, "compute_failed", fault, fatal)
                self.process.feed(failed)
                if not fatal:
                    self._next(each, rest[1:])
                return
        emitted = FrameHead(
            head.model,
            task.makes,
            task.attempt,
            exact=head.exact,
            barrier=head.barrier,
            nbytes=FRAME_NBYTES,
            raw_nbytes=FRAME_RAW_NBYTES,
        )
        self.computed.add((self.process.machine._agent.generation, task))
        made = tensors.through(value, task.first, task.last)
        self.process.spool[task.makes, "output"] = (made, emitted)
        done = happened.TaskExecuted(each.number, task, emitted, 0.0, seconds, 0.0, ())
        self.process.feed(done)
        self._next(each, rest[1:])

    def _has(self, fault: str) -> bool:
        """Whether it is to fail so now; once each."""
        if fault not in self.process.faults:
            return False
        self.process.faults.remove(fault)
        return True

    def _lasting(self, seconds: float, act: Callable[[], None]) -> None:
        """Unless ONNX Runtime hangs."""
        if self._has("stuck"):
            seconds = NEVER_S
        elif self._has("late"):
            seconds = LATE_S
        else:
            seconds = about(self.process.random, seconds)
        self.process.later(seconds, act)
