"""Frames held here: inputs that wait or run, and outputs that nobody released yet.

Counts their bytes. Whether an arrival may stay is decided where it is received; what is held
already is never thrown out for room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edge_agent.machine.records.events import FrameHead
from edge_agent.machine.records.partitions import Key
from edge_agent.machine.records.transitions import Life
from wire.ids import ActivationId


@dataclass
class HeldInput:
    """`order` ranks its run by arrival. `opened`: a barrier does not hold it back. `again` is a
    later attempt that came while this one ran."""

    head: FrameHead
    sender: str
    arrived_at: float
    order: int
    life: Life
    opened: bool
    early_since: float = 0.0
    again: FrameHead | None = None

    @property
    def name(self) -> ActivationId:
        return self.head.activation

    @property
    def key(self) -> Key:
        return key_of(self.head)

    @property
    def rank(self) -> tuple[int, int, int]:
        return (self.order, self.name.item, self.name.cut)

    @property
    def startable(self) -> bool:
        return self.life.state == "waiting" and self.opened


@dataclass
class HeldOutput:
    head: FrameHead
    life: Life

    @property
    def name(self) -> ActivationId:
        return self.head.activation

    @property
    def key(self) -> Key:
        return key_of(self.head)


def key_of(head: FrameHead) -> Key:
    return (head.model, head.exact, head.activation.cut)


class Held:
    def __init__(self) -> None:
        self.inputs: dict[ActivationId, HeldInput] = {}
        self.outputs: dict[ActivationId, HeldOutput] = {}
        self._by_key: dict[Key, dict[ActivationId, HeldInput]] = {}
        self.nbytes = 0

    def add_input(self, entry: HeldInput) -> None:
        self.inputs[entry.name] = entry
        self._by_key.setdefault(entry.key, {})[entry.name] = entry
        self.nbytes += entry.head.nbytes

    def replace_head(self, entry: HeldInput, head: FrameHead) -> None:
        """The same activation came again and lies in the spool in place of the first."""
        self.nbytes += head.nbytes - entry.head.nbytes
        entry.head = head

    def remove_input(self, name: ActivationId) -> HeldInput:
        entry = self.inputs.pop(name)
        siblings = self._by_key[entry.key]
        del siblings[name]
        if not siblings:
            del self._by_key[entry.key]
        self.nbytes -= entry.head.nbytes
        return entry

    def add_output(self, entry: HeldOutput) -> None:
        self.outputs[entry.name] = entry
        self.nbytes += entry.head.nbytes

    def remove_output(self, name: ActivationId) -> HeldOutput:
        entry = self.outputs.pop(name)
        self.nbytes -= entry.head.nbytes
        return entry

    def inputs_of(self, key: Key) -> Iterator[HeldInput]:
        return iter(self._by_key.get(key, {}).values())

    def next_startable(self, key: Key) -> HeldInput | None:
        """The first by arrival of its run, then by item."""
        startable = (entry for entry in self.inputs_of(key) if entry.startable)
        return min(startable, key=lambda entry: entry.rank, default=None)

    @property
    def early_nbytes(self) -> int:
        return sum(entry.head.nbytes for entry in self.early())

    def early(self) -> list[HeldInput]:
        return [entry for entry in self.inputs.values() if entry.life.state == "early"]

    @property
    def queue_depth(self) -> int:
        """Tasks that wait or run."""
        return sum(entry.life.state in ("waiting", "running") for entry in self.inputs.values())
