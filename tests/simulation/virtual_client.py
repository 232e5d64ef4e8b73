"""A person's program: submits until accepted, sends inputs by credit, acknowledges results.

Every outcome that comes is noted; two different ones for an item are a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from tests.simulation import tensors
from tests.simulation.clockwork import Clockwork
from tests.simulation.network import Broker, Message
from tests.simulation.virtual_courier import VirtualCourier
from tests.simulation.virtual_executor import FRAME_NBYTES, FRAME_RAW_NBYTES
from tests.simulation.virtual_orchestrator import VirtualOrchestrator
from wire import record
from wire.frame_head import FrameHead
from wire.ids import ActivationId
from wire.manifest import Manifest
from wire.messages.requests import (
    Accepted,
    AcknowledgeResults,
    CancelRun,
    InputsStored,
    ItemFailed,
    LeaveRun,
    Rejected,
    Request,
    Response,
    Resume,
    RunNews,
    RunOptions,
    RunWaits,
    Submit,
)

ASK_AGAIN_S = 4.0
RESULT = "result"


class Surroundings(Protocol):
    clock: Clockwork
    broker: Broker
    manifest: Manifest
    part_nbytes: int | None
    orchestrator: VirtualOrchestrator

    def check_failure(self, run: str, item: int, kind: str, reason: str) -> None: ...


@dataclass
class ClientRun:
    name: str
    items: int
    options: RunOptions
    attached: int = 0
    accepted: bool = False
    rejected: str | None = None
    credit: int = 0
    stored: set[int] = field(default_factory=set)
    in_flight: dict[int, None] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    cancelling: bool = False
    waits: str | None = None
    collects: bool = False  # another began it
    unsure: bool = False  # and it may be another's again

    @property
    def leaves(self) -> bool:
        """It goes on without us once its inputs are stored."""
        return self.options.detached and not self.collects

    @property
    def over(self) -> bool:
        if self.leaves:
            return self.rejected is not None or len(self.stored) == self.items
        return self.rejected is not None or (len(self.outcomes) == self.items and not self.unsure)


class VirtualClient:
    def __init__(self, world: Surroundings, party: str) -> None:
        self.world, self.party = world, party
        self.courier = VirtualCourier(world.clock, self, world.part_nbytes)
        self.runs: dict[str, ClientRun] = {}
        self.gone = False
        world.broker.connect(party, self._receive, clean=True)
        self._again()

    def submit(
        self, name: str, items: int, options: RunOptions | None = None, attached: int = 0
    ) -> ClientRun:
        """`attached`: so many inputs are sent right behind, the first time."""
        run = self.runs[name] = ClientRun(
            name, items, options or RunOptions(), min(attached, items)
        )
        self._submit(run, run.attached)
        for item in range(run.attached):
            run.in_flight[item] = None
            self._send(run, item)
        return run

    def cancel(self, name: str) -> None:
        self.runs[name].cancelling = True
        self._say(CancelRun(name))

    def vanish(self) -> None:
        """Cut off: it says nothing more, and hears nothing."""
        self.gone = True
        self.world.broker.drop(self.party)

    def come_back(self) -> None:
        self.gone = False
        self._again()

    def _leave(self, run: ClientRun) -> None:
        if run.leaves and run.accepted:
            self._say(LeaveRun(run.name))

    def _ask_for(self, run: ClientRun) -> None:
        self._submit(run)

    def _submit(self, run: ClientRun, attached: int = 0) -> None:
        self._say(Submit(run.name, self.world.manifest.name, run.options, run.items, attached))

    def _say(self, request: Request) -> None:
        self.world.broker.publish(self.party, f"requests/{self.party}", record.encode(request))

    def _again(self) -> None:
        """Whatever was not answered is asked again."""
        if self.gone:
            return
        if not self.world.broker.is_online(self.party):
            self.world.broker.connect(self.party, self._receive)
            self.courier.connected()
        for run in self.runs.values():
            if run.over:
                self._leave(run)
                continue
            if not run.accepted:
                self._ask_for(run)
            elif run.leaves:
                run.in_flight.clear()
                self._say(Resume(run.name, reads=False))
            elif run.cancelling:
                self._say(CancelRun(run.name))
                self._say(Resume(run.name))
            else:
                run.in_flight.clear()
                self._say(Resume(run.name))
        self.world.clock.later(ASK_AGAIN_S, self._again)

    def _receive(self, message: Message) -> None:
        if message.kind == "data":
            self.courier.receive(*message.payload)
        elif message.kind == "responses":
            response = record.decode(Response, message.payload)
            if isinstance(response, RunNews):
                return
            run = self.runs.get(response.run)
            if run is None:
                return  # we left it
            self._HANDLERS[type(response)](self, run, response)

    # the courier's owner

    def say(self, to: str, payload: bytes) -> None:
        self.world.broker.publish(self.party, f"data/{to}", (self.party, payload))

    def take(self, sender: str, head: FrameHead, value: str) -> None:
        self._result(head.activation, value)

    def lose(self, sender: str, activation: ActivationId, kind: str, reason: str) -> None:
        """It is asked for again, as everything is that did not come."""

    def _result(self, activation: ActivationId, value: str) -> None:
        run = self.runs.get(activation.run)
        if run is None:
            return  # we left it
        end = len(self.world.manifest.segments)
        expected = tensors.through(tensors.feed(run.name, activation.item), 0, end - 1)
        assert value == expected, f"{activation} is not what the whole model gives"
        self._outcome(run, activation.item, RESULT)

    def _outcome(self, run: ClientRun, item: int, what: str) -> None:
        if run.leaves:
            return  # sent after a restart; nothing of it is read here
        before = run.outcomes.setdefault(item, what)
        # The library gives each item once. What the disk could not keep was told all the same, and
        # is found without an outcome after a restart.
        unkept = (run.name, item) in self.world.orchestrator.journal.told
        assert before == what or unkept, f"{run.name}/{item} was {before} and then {what}"
        self._acknowledge(run, item)
        self._note(run, ((item, item),))

    def _acknowledge(self, run: ClientRun, item: int) -> None:
        self._say(AcknowledgeResults(run.name, (item,)))

    def _accepted(self, run: ClientRun, told: Accepted) -> None:
        if not run.accepted:
            run.in_flight.clear()  # what came along and is not told here was not taken
        run.accepted, run.credit = True, told.credit
        self._note(run, told.stored)

    def _inputs_stored(self, run: ClientRun, told: InputsStored) -> None:
        run.credit = told.credit
        self._note(run, told.ranges)

    def _note(self, run: ClientRun, ranges: tuple[tuple[int, int], ...]) -> None:
        for first, last in ranges:
            run.stored.update(range(first, last + 1))
        for item in run.stored & run.in_flight.keys():
            del run.in_flight[item]
        self._feed(run)

    def _feed(self, run: ClientRun) -> None:
        for item in range(run.items):
            if len(run.in_flight) >= run.credit or run.cancelling:
                return
            if item not in run.stored and item not in run.in_flight:
                run.in_flight[item] = None
                self._send(run, item)

    def _send(self, run: ClientRun, item: int) -> None:
        head = FrameHead(
            self.world.manifest.digest,
            ActivationId(run.name, item, 0),
            0,
            exact=run.options.exact,
            barrier=run.options.barrier,
            nbytes=FRAME_NBYTES,
            raw_nbytes=FRAME_RAW_NBYTES,
        )
        self.courier.send("orchestrator", head, tensors.feed(run.name, item))

    def _item_failed(self, run: ClientRun, told: ItemFailed) -> None:
        if told.item not in run.outcomes:
            self.world.check_failure(run.name, told.item, told.kind, told.reason)
        run.reasons[told.item] = told.reason
        self._outcome(run, told.item, told.kind)

    def _run_waits(self, run: ClientRun, told: RunWaits) -> None:
        run.waits = told.kind

    def _rejected(self, run: ClientRun, told: Rejected) -> None:
        """Of a run that ended, this only says that it is known no more."""
        if told.doubtful:
            if run.accepted:
                self._say(Resume(run.name))
        elif told.again_s is None and not run.over:  # else it asks again anyhow
            run.rejected = f"{told.kind}: {told.reason}"

    _HANDLERS: ClassVar[dict[type, Callable[[Any, ClientRun, Any], None]]] = {
        Accepted: _accepted,
        InputsStored: _inputs_stored,
        ItemFailed: _item_failed,
        RunWaits: _run_waits,
        Rejected: _rejected,
    }
