"""A device of the crowd that serves: it answers as an agent does, in the crowd's own time.

It loads what it is assigned, computes one task at a time, forwards, keeps outputs until they are
released, and lets events that only inform gather. Nothing is ever lost on its way, so it repeats
nothing. No bytes exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from benchmarks.crowd.clock import Clock
from benchmarks.crowd.device import FORMER_STAMP, name_of
from benchmarks.crowd.model import HIDDEN_NBYTES
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages import events as told
from wire.messages.assignment import Assignment, PartitionAssignment
from wire.messages.commands import Cancel, Command, Ping, Profile, Release, Send
from wire.messages.residency import PartitionResidency, ResidencyStatus

LOAD_S = 0.2
COMPUTE_S = 0.02  # of a task
GATHER_S = 0.02  # as agents let news wait
HOP_S = 0.002  # from one party to another
FRAME_NBYTES = HIDDEN_NBYTES // 2


class Surroundings(Protocol):
    """What an agent needs of the crowd it is in."""

    clock: Clock

    def events_from(self, number: int, events: tuple[told.DeviceEvent, ...], kind: str) -> None: ...

    def residency_from(
        self, number: int, stamp: tuple[int, int], partitions: tuple[PartitionResidency, ...]
    ) -> None: ...

    def frame_from(self, number: int, at: ActivationId, to: str, attempt: int) -> None: ...


class Agent:
    def __init__(self, number: int, around: Surroundings) -> None:
        self._number = number
        self._around = around
        self._assignment = Assignment(*FORMER_STAMP, "")
        self._loaded: set[PartitionId] = set()
        self._waiting: dict[ActivationId, int] = {}  # with the attempt
        self._outputs: dict[ActivationId, int] = {}
        self._running: TaskId | None = None
        self._gathered: list[told.DeviceEvent] = []

    @property
    def serves(self) -> bool:
        return bool(self._assignment.partitions)

    # --- what it is told ----------------------------------------------------------------------

    def obey(self, assignment: Assignment) -> None:
        if assignment.stamp <= self._assignment.stamp:
            return
        self._assignment = assignment
        listed = {each.partition for each in assignment.partitions}
        self._loaded &= listed
        self._say_residency()
        for partition in sorted(listed - self._loaded):
            self._around.clock.later(LOAD_S, partial(self._load, partition))

    def command(self, command: Command) -> None:
        answers: dict[str, Callable[[Any], None]] = {
            "send": self._send_again,
            "release": self._release,
            "cancel": self._cancel,
            "report": lambda _: self._say_at_once(self._inventory()),
            "ping": self._pong,
            "profile": self._profile,
        }
        if command.type in answers:
            answers[command.type](command)

    def frame(self, at: ActivationId, sender: str, attempt: int) -> None:
        self._waiting[at] = attempt
        self._say(told.FrameReceived(at, sender, FRAME_NBYTES, self._around.clock.now))
        self._work()

    # --- serving ------------------------------------------------------------------------------

    def _load(self, which: PartitionId) -> None:
        if which not in {each.partition for each in self._assignment.partitions}:
            return
        self._loaded.add(which)
        now = self._around.clock.now
        self._say(told.PartitionLoaded(which, 3, False, now, LOAD_S, 1, LOAD_S, 1, 1))
        self._say_residency()
        self._work()

    def _work(self) -> None:
        """Begin the task that has waited longest of those that can be done here."""
        ready = self._ready()
        if self._running is not None or ready is None:
            return
        at, part = ready
        attempt = self._waiting.pop(at)
        self._running = task = TaskId(at.run, at.item, part.first, part.last, attempt)
        self._say(told.TaskStarted(task, self._around.clock.now))
        self._around.clock.later(COMPUTE_S, lambda: self._done(task))

    def _ready(self) -> tuple[ActivationId, PartitionId] | None:
        firsts = {part.first: part for part in self._loaded}
        return next(((at, firsts[at.cut]) for at in self._waiting if at.cut in firsts), None)

    def _done(self, task: TaskId) -> None:
        self._running, made = None, task.makes
        self._outputs[made] = task.attempt
        to = self._dependent(made)
        self._say(
            told.TaskDone(
                task,
                self._around.clock.now,
                0.001,
                0.0005,
                COMPUTE_S,
                0.0005,
                FRAME_NBYTES,
                FRAME_NBYTES,
                HIDDEN_NBYTES,
                parked=to is None,
            )
        )
        if to is not None:
            self._around.frame_from(self._number, made, to, task.attempt)
        self._work()

    def _dependent(self, made: ActivationId) -> str | None:
        routes = (route for route in self._assignment.routes if route.cut == made.cut)
        to = next((route.dependents for route in routes if route.dependents), None)
        return to[made.item % len(to)] if to else None

    # --- commands -----------------------------------------------------------------------------

    def _send_again(self, asked: Send) -> None:
        for item in asked.items:
            at = ActivationId(asked.run, item, asked.cut)
            if at in self._outputs:
                self._around.frame_from(self._number, at, asked.to, self._outputs[at])
            else:
                self._say_at_once(told.FrameDropped(at, "not_held", "it is not here"))

    def _release(self, asked: Release) -> None:
        for item in asked.items:
            self._outputs.pop(ActivationId(asked.run, item, asked.cut), None)

    def _cancel(self, asked: Cancel) -> None:
        for held in (self._waiting, self._outputs):
            for at in [at for at in held if at.run == asked.run]:
                if not asked.items or at.item in asked.items:
                    del held[at]

    def _pong(self, asked: Ping) -> None:
        self._say_at_once(told.Pong(asked.nonce, self._around.clock.now))

    def _profile(self, asked: Profile) -> None:
        count = asked.partition.last - asked.partition.first + 1
        self._say_at_once(told.Profiled(asked.partition, (COMPUTE_S / count,) * count))

    # --- what it says -------------------------------------------------------------------------

    def _say(self, event: told.DeviceEvent) -> None:
        self._gathered.append(event)
        if len(self._gathered) == 1:
            self._around.clock.later(GATHER_S, self._flush)

    def _say_at_once(self, event: told.DeviceEvent) -> None:
        self._gathered.append(event)
        self._flush()

    def _flush(self) -> None:
        events, self._gathered = tuple(self._gathered), []
        if events:
            self._around.events_from(self._number, events, "events")

    def _say_residency(self) -> None:
        self._around.residency_from(
            self._number, self._assignment.stamp, tuple(self._residencies())
        )

    def _residencies(self) -> Iterable[PartitionResidency]:
        for each in self._assignment.partitions:
            yield self._residency(each)

    def _residency(self, each: PartitionAssignment) -> PartitionResidency:
        loaded = each.partition in self._loaded
        total = sum(blob.nbytes for blob in each.blobs)
        status: ResidencyStatus = "resident" if loaded else "fetching"
        return PartitionResidency(
            each.partition, each.model_name, status, total if loaded else 0, total
        )

    def _inventory(self) -> told.Inventory:
        return told.Inventory(
            *self._assignment.stamp,
            tuple(sorted(self._outputs)),
            tuple(sorted(self._waiting)),
            self._running,
            (),
            tuple(self._residencies()),
        )

    def __repr__(self) -> str:
        return f"Agent({name_of(self._number)!r})"
