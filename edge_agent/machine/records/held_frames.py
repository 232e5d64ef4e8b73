"""Frames held here: inputs that wait or run, and outputs that nobody released yet.

Keeps the totals and indices that the rules need, so that no rule looks at all frames because one of
them changed. States are changed by the methods here alone. Whether an arriving frame is accepted,
and what is dropped for it, is decided in `frames`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from edge_agent.machine.records.events import FrameHead
from edge_agent.machine.records.partitions import Key
from edge_agent.machine.records.ranked_set import RankedSet
from edge_agent.machine.records.run_index import RunIndex
from wire.ids import ActivationId
from wire.lifecycle import Lifecycle


@dataclass
class HeldInput:
    """An input in the spool, and the task that it is for."""

    head: FrameHead  # of the copy in the spool; its activation and key never change
    sender: str  # of the copy in the spool; each sender's lies there by itself
    arrived_at: float
    life: Lifecycle  # of its task; moved by `HeldFrames.move_input` alone
    opened: bool  # no barrier holds it back
    number: int = 0  # ranks it among all inputs by arrival; given by `HeldFrames`
    early_since: float = 0.0  # when it entered the state `early` last
    again: FrameHead | None = None  # a later attempt that came while this one ran; None otherwise

    @property
    def name(self) -> ActivationId:
        return self.head.activation

    @property
    def key(self) -> Key:
        return key_of(self.head)


@dataclass
class HeldOutput:
    """An output in the spool."""

    head: FrameHead  # never changes
    life: Lifecycle  # moved by `HeldFrames.move_output` alone

    @property
    def name(self) -> ActivationId:
        return self.head.activation

    @property
    def key(self) -> Key:
        return key_of(self.head)


@dataclass
class Queue:
    """The inputs of one key by the state of their task; a running one is in none of these."""

    early: dict[ActivationId, HeldInput] = field(default_factory=dict)
    waiting: dict[ActivationId, HeldInput] = field(default_factory=dict)
    startable: RankedSet[ActivationId] = field(default_factory=RankedSet)  # waiting and opened

    @property
    def is_empty(self) -> bool:
        return not (self.early or self.waiting)


def key_of(head: FrameHead) -> Key:
    return (head.model, head.exact, head.activation.cut)


class HeldFrames:
    """`work_changed` is called with a key and whether an input of it can start, when that
    changes."""

    def __init__(self, work_changed: Callable[[Key, bool], None]) -> None:
        self._work_changed = work_changed
        self.inputs: dict[ActivationId, HeldInput] = {}  # in order of arrival
        self.outputs: dict[ActivationId, HeldOutput] = {}  # in the order in which they were made
        self.nbytes = 0  # of all inputs and outputs
        self.inputs_nbytes = 0
        self.early_nbytes = 0  # of the inputs that no partition takes
        self.queue_depth = 0  # tasks that wait or run
        self.inputs_by_run = RunIndex()  # of all inputs
        self.outputs_by_run = RunIndex()  # of all outputs
        self.queues: dict[Key, Queue] = {}  # none is empty
        self.parked: dict[Key, dict[ActivationId, HeldOutput]] = {}  # none is empty
        self.early_by_age: RankedSet[ActivationId] = RankedSet()  # early for longest first
        self.early_by_arrival: RankedSet[ActivationId] = RankedSet()  # the newest first
        self._number = 0

    # --- inputs -------------------------------------------------------------------------------

    def add_input(self, entry: HeldInput) -> None:
        self._number += 1
        entry.number = self._number
        self.inputs[entry.name] = entry
        self.inputs_by_run.add(entry.name)
        self.nbytes += entry.head.nbytes
        self.inputs_nbytes += entry.head.nbytes
        self._enter(entry)

    def move_input(self, entry: HeldInput, to: str, now: float, why: str = "") -> None:
        self._leave(entry)
        entry.life.move(to, now, why)
        if to == "early":
            entry.early_since = now
        self._enter(entry)

    def open_input(self, name: ActivationId) -> None:
        """No barrier holds it back any more, if it is here."""
        entry = self.inputs.get(name)
        if entry is not None and not entry.opened:
            self._leave(entry)
            entry.opened = True
            self._enter(entry)

    def replace_head(self, entry: HeldInput, head: FrameHead) -> None:
        """The same activation came again and lies in the spool in place of the first."""
        more = head.nbytes - entry.head.nbytes
        self.nbytes += more
        self.inputs_nbytes += more
        if entry.life.state == "early":
            self.early_nbytes += more
        entry.head = head

    def remove_input(self, entry: HeldInput) -> None:
        self._leave(entry)
        del self.inputs[entry.name]
        self.inputs_by_run.discard(entry.name)
        self.nbytes -= entry.head.nbytes
        self.inputs_nbytes -= entry.head.nbytes

    def _enter(self, entry: HeldInput) -> None:
        """Count it in the totals and indices of its state."""
        state, name = entry.life.state, entry.head.activation
        if state == "waiting":
            self.queue_depth += 1
            queue = self._queue(entry.key)
            queue.waiting[name] = entry
            if entry.opened:
                queue.startable.put(name, entry.number)
                if len(queue.startable) == 1:
                    self._work_changed(entry.key, True)
        elif state == "early":
            self.early_nbytes += entry.head.nbytes
            self._queue(entry.key).early[name] = entry
            self.early_by_age.put(name, entry.early_since)
            self.early_by_arrival.put(name, -entry.number)
        elif state == "running":
            self.queue_depth += 1

    def _leave(self, entry: HeldInput) -> None:
        """Undo what `_enter` did."""
        state, name = entry.life.state, entry.head.activation
        if state == "waiting":
            self.queue_depth -= 1
            queue = self.queues[entry.key]
            del queue.waiting[name]
            if entry.opened:
                queue.startable.discard(name)
                if not queue.startable:
                    self._work_changed(entry.key, False)
            self._drop_if_empty(entry.key, queue)
        elif state == "early":
            self.early_nbytes -= entry.head.nbytes
            queue = self.queues[entry.key]
            del queue.early[name]
            self._drop_if_empty(entry.key, queue)
            self.early_by_age.discard(name)
            self.early_by_arrival.discard(name)
        elif state == "running":
            self.queue_depth -= 1

    def _queue(self, key: Key) -> Queue:
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = Queue()
        return queue

    def _drop_if_empty(self, key: Key, queue: Queue) -> None:
        if queue.is_empty:
            del self.queues[key]

    def next_startable(self, key: Key) -> HeldInput | None:
        """The one that came first, whatever its run: the orchestrator lets items in in turn, and
        that order is kept. By run, the items of an early one would overtake all others."""
        queue = self.queues.get(key)
        name = queue.startable.first() if queue else None
        return None if name is None else self.inputs[name]

    def oldest_early(self) -> HeldInput | None:
        """The one that no partition has taken for longest."""
        name = self.early_by_age.first()
        return None if name is None else self.inputs[name]

    def newest_early(self) -> HeldInput | None:
        """The one that arrived last of those that no partition takes."""
        name = self.early_by_arrival.first()
        return None if name is None else self.inputs[name]

    def newest_inputs(self) -> Iterator[HeldInput]:
        return reversed(self.inputs.values())

    # --- outputs ------------------------------------------------------------------------------

    def add_output(self, entry: HeldOutput) -> None:
        self.outputs[entry.name] = entry
        self.outputs_by_run.add(entry.name)
        self.nbytes += entry.head.nbytes

    def move_output(self, entry: HeldOutput, to: str, now: float, why: str = "") -> None:
        self._leave_parked(entry)
        entry.life.move(to, now, why)
        if to == "parked":
            self.parked.setdefault(entry.key, {})[entry.name] = entry

    def remove_output(self, entry: HeldOutput) -> None:
        self._leave_parked(entry)
        del self.outputs[entry.name]
        self.outputs_by_run.discard(entry.name)
        self.nbytes -= entry.head.nbytes

    def _leave_parked(self, entry: HeldOutput) -> None:
        if entry.life.state == "parked":
            parked = self.parked[entry.key]
            del parked[entry.name]
            if not parked:
                del self.parked[entry.key]
