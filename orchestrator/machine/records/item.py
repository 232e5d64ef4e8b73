"""One item on its way: where its activations are, as far as devices reported it.

Also says what is wrong with an input or a result, by its head alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from orchestrator.machine.records.agenda import Agenda
from orchestrator.machine.records.events import FrameHead, Outcome, TensorHead
from orchestrator.machine.records.suspicion import Suspicion
from orchestrator.planner.ranking import Choice
from wire.elements import Element, element
from wire.lifecycle import Lifecycle
from wire.manifest import Manifest, TensorSpec
from wire.shapes import Sizes, shape_fault

ItemKey = tuple[str, int]  # run and index


class Involved:
    """Which items each device may hold something of; an item is here until it is over."""

    def __init__(self) -> None:
        self._by_device: dict[str, dict[ItemKey, Item]] = {}

    def add(self, device: str, item: Item) -> None:
        self._by_device.setdefault(device, {})[item.key] = item

    def drop(self, item: Item) -> None:
        for device in item.touched:
            there = self._by_device[device]
            del there[item.key]
            if not there:
                del self._by_device[device]

    def of(self, device: str) -> list[Item]:
        return list(self._by_device.get(device, {}).values())

    def devices(self) -> Iterator[str]:
        return iter(self._by_device)


@dataclass(frozen=True, slots=True)
class Hedge:
    """A late task that another device does as well: whose it is, when that one began, and how the
    other was chosen."""

    device: str
    since: float
    choice: Choice


@dataclass(slots=True)
class Item:
    """Tables are by cut, or for stages by their first cut."""

    run: str
    index: int
    life: Lifecycle
    agenda: Agenda
    involved: Involved
    barrier: bool = False  # a wave waits for it at each cut
    nbytes: int = 0
    attempt: int = 0  # the next one's number; above any that was ever sent
    outputs: dict[int, dict[str, None]] = field(default_factory=dict)  # made there, not released
    inputs: dict[int, dict[str, None]] = field(default_factory=dict)  # received there
    sent: dict[int, str] = field(default_factory=dict)  # under way to it, or come, as believed
    parked: dict[int, str] = field(default_factory=dict)  # holders that send once they know to whom
    opened: dict[int, str] = field(default_factory=dict)  # told that it may pass the barrier
    detours: dict[int, str] = field(default_factory=dict)  # stages on another device for it alone
    hedges: dict[int, Hedge] = field(default_factory=dict)  # those of them that only help
    helps: int = 0  # so often another device was given a late task of it as well
    failures: dict[int, tuple[str, str]] = field(default_factory=dict)  # kind and reason, by stage
    started: dict[int, float] = field(default_factory=dict)  # tasks under way, by stage
    touched: dict[str, None] = field(default_factory=dict)  # exactly those that `involved` has
    facts: set[tuple[str, int, str]] = field(default_factory=set)  # only a new one is progress
    spent: set[tuple[int, str]] = field(default_factory=set)  # computed by a boot in this attempt
    # Outputs, by cut and device, that a device without a place says it holds: none counts on them.
    strays: set[tuple[int, str]] = field(default_factory=set)
    received_cut: int = -1  # the deepest at which it was received; never falls
    progress_at: float = 0.0
    check_at: float = float("inf")  # on the agenda, or earlier there
    retry_at: float = float("inf")  # as `check_at`
    asked: bool = False  # its devices were asked for it, and have not all answered
    hurried: bool = False  # its input was sent again at once since the last news
    rounds: int = 0  # recoveries since the last news
    drops: dict[str, int] = field(
        default_factory=dict
    )  # frames given up, by sender, since the last news
    sends: int = 0  # inputs sent
    suspicion: Suspicion | None = None  # that it ends the agents which run it
    outcome: Outcome | None = None
    has_input: bool = False  # on our disk

    @property
    def key(self) -> ItemKey:
        return (self.run, self.index)

    @property
    def state(self) -> str:
        return self.life.state

    def note(self, what: str, cut: int, device: str, now: float) -> bool:
        """Record what happened; whether it is news."""
        self.touch(device)
        if (what, cut, device) in self.facts:
            return False
        self.facts.add((what, cut, device))
        self.progress_at, self.rounds, self.asked = now, 0, False
        self.drops.clear()
        self.hurried = False
        return True

    def touch(self, device: str) -> None:
        """It may hold something of the item, or be sent it."""
        if device not in self.touched:
            self.touched[device] = None
            self.involved.add(device, self)

    def leave(self) -> None:
        """It is over: nobody is to find it any more."""
        self.involved.drop(self)
        self.agenda.forget("item", self.key)
        self.agenda.forget("late", self.key)

    def receive(self, cut: int, device: str) -> None:
        """The activation at the cut came there."""
        self.touch(device)
        self.inputs.setdefault(cut, {})[device] = None
        self.received_cut = max(self.received_cut, cut)
        self.agenda.look("late", self.key)
        self._look_at_barrier()

    def make(self, cut: int, device: str) -> None:
        """The activation at the cut was made there, and is held."""
        self.touch(device)
        self.outputs.setdefault(cut, {})[device] = None
        self.agenda.look("late", self.key)
        self._look_at_barrier()

    def check_by(self, at: float) -> None:
        self.check_at = at
        self.agenda.look_at("item", self.key, at)

    def retry_by(self, at: float) -> None:
        self.retry_at = at
        self.agenda.look_at("item", self.key, at)

    def _look_at_barrier(self) -> None:
        if self.barrier:
            self.agenda.look("barrier", self.run)

    def forget_holder(self, device: str, cut: int | None = None) -> bool:
        """The device holds nothing of it any more (at this cut); whether that is a change."""
        changed = False
        for held in (self.outputs, self.inputs):
            for at in [at for at in held if cut in (None, at) and device in held[at]]:
                self.forget_frame(held, device, at)
                changed = True
        for table in (self.sent, self.parked):
            for at in [at for at, who in table.items() if who == device and cut in (None, at)]:
                del table[at]
                changed = True
        return changed

    def forget_frame(self, table: dict[int, dict[str, None]], device: str, cut: int) -> None:
        """The device holds it no more in this one way: `table` is `inputs` or `outputs`."""
        table[cut].pop(device, None)
        if not table[cut]:
            del table[cut]
        if table is self.inputs:
            self.started.pop(cut, None)  # who has it next begins anew
        believed = self.sent if table is self.inputs else self.parked
        if believed.get(cut) == device:
            del believed[cut]

    def drop_strays(self, device: str) -> list[int]:
        """None of the device's are known any more; at which cuts they were."""
        cuts = sorted(cut for cut, holder in self.strays if holder == device)
        self.strays.difference_update([(cut, device) for cut in cuts])
        return cuts

    def computed(self, first: int, device: str) -> None:
        """The device's task is done: its input is gone there."""
        self.started.pop(first, None)
        held = self.inputs.get(first, {})
        held.pop(device, None)
        if not held:
            self.inputs.pop(first, None)

    def leave_flight(self, to: str, now: float, why: str) -> None:
        """It waits again: what is queued for it may go on, nothing is expected of it."""
        self.life.move(to, now, why)
        for table in (self.outputs, self.sent, self.parked, self.opened, self.drops):
            table.clear()
        self.started.clear()
        self.drop_detours()
        self.check_at = self.retry_at = float("inf")
        self.rounds, self.asked = 0, False

    def drop_detours(self) -> None:
        """All stages are on the plan's own devices again."""
        self.detours.clear()
        self.hedges.clear()

    def begin_anew(self) -> None:
        """From its input, as if nobody had ever had anything of it; what comes again is news."""
        self.inputs.clear()
        self.started.clear()
        self.facts.clear()

    def holders(self) -> list[str]:
        tables = (*self.outputs.values(), *self.inputs.values())
        return list(dict.fromkeys(device for held in tables for device in held))


def input_fault(manifest: Manifest, head: FrameHead) -> str | None:
    """Why an input cannot be taken, as a sentence; None if it can."""
    if head.model != manifest.digest:
        return f"the input is for another version of model '{manifest.name}'; read it anew"
    fault = _names_fault("input", [spec.name for spec in manifest.inputs], head.tensors)
    if fault is not None:
        return fault
    sizes: Sizes = {}
    tensors = {tensor.name: tensor for tensor in head.tensors}
    for spec in manifest.inputs:
        fault = _tensor_fault(spec, tensors[spec.name], manifest.symbols, sizes)
        if fault is not None:
            return fault
    most = manifest.frame_bound_nbytes(0)
    if head.raw_nbytes > most:
        # No shape bounds these, and all else was held against its shape.
        free = [s for s in manifest.inputs if s.kind is Element.STRING or not s.rank_known]
        names = ", ".join(f"'{spec.name}'" for spec in free)
        return (
            f"the input has {head.raw_nbytes} bytes, and {most} are allowed: make {names} smaller"
        )
    return None


def result_fault(manifest: Manifest, head: FrameHead) -> str | None:
    """Why a device's frame is no result of the model; None if it is."""
    if head.model != manifest.digest:
        return f"the frame is of model {head.model[:8]}, not of '{manifest.name}'"
    names = [tensor.name for tensor in manifest.cuts[-1].tensors]
    fault = _names_fault("output", names, head.tensors)
    if fault is not None:
        return fault
    expected = {tensor.name: tensor.element for tensor in manifest.cuts[-1].tensors}
    for tensor in head.tensors:
        if tensor.element != expected[tensor.name]:
            return f"output '{tensor.name}' is {_type(tensor.element)}"
    return None


def _names_fault(what: str, wanted: Sequence[str], tensors: Sequence[TensorHead]) -> str | None:
    given = [tensor.name for tensor in tensors]
    if len(set(given)) != len(given):
        return f"an {what} is given twice: {', '.join(given)}"
    missing = [name for name in wanted if name not in given]
    extra = [name for name in given if name not in wanted]
    if missing:
        return f"{what} '{missing[0]}' is missing; the model has {', '.join(wanted)}"
    if extra:
        return f"the model has no {what} '{extra[0]}'; it has {', '.join(wanted)}"
    return None


def _tensor_fault(
    spec: TensorSpec,
    tensor: TensorHead,
    symbols: dict[str, int],
    sizes: Sizes,
) -> str | None:
    if tensor.element != spec.element:
        return f"input '{spec.name}' is {_type(tensor.element)}; the model takes {spec.kind.name}"
    return shape_fault(spec, tensor.shape, symbols, sizes)


def _type(number: int) -> str:
    return element(number).name
