"""The orchestrator's shell without disk or broker: pending frames, a journal that survives."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Literal, Protocol

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.clockwork import Clockwork
from tests.simulation.inbound_message import event_of
from tests.simulation.journal import Journal
from tests.simulation.network import Broker, Message
from tests.simulation.virtual_courier import VirtualCourier
from tests.simulation.virtual_executor import FRAME_NBYTES, FRAME_RAW_NBYTES
from tests.support.planner_beside import answered
from wire import record
from wire.elements import Element
from wire.frame_head import FrameHead, TensorHead
from wire.ids import ActivationId
from wire.manifest import Manifest
from wire.messages import commands as cmd
from wire.messages.assignment import Assignment
from wire.messages.requests import Accepted, InputsStored, Response
from wire.messages.state import OrchestratorState

NAME = "orchestrator"
SYNC_S = 0.003
SEARCH_S = 0.2
GATHER_S = 0.004
FOR_WATCHERS = (ins.PublishModel, ins.ClearModel, ins.PublishRun, ins.ClearRun)


class Surroundings(Protocol):
    clock: Clockwork
    broker: Broker
    random: Random
    manifest: Manifest
    model_there: bool
    disk_full: bool
    part_nbytes: int | None

    def check_release(self, device: str, command: cmd.Release) -> None: ...


class VirtualOrchestrator:
    """Who `gathers` handles at once what comes within a few milliseconds."""

    def __init__(
        self, world: Surroundings, options: OrchestratorOptions, gathers: bool = False
    ) -> None:
        self.world, self.options, self.gathers = world, options, gathers
        self.mail: list[ev.Event] = []
        self.journal = Journal()
        self.boots = self.connections = 0
        self.running = self.connected = False
        self.generations: list[int] = []
        self.assignments: list[tuple[float, str, Assignment]] = []
        self.up_since: float | None = None
        self.ended: dict[tuple[str, int], tuple[float, float]] = {}  # when; inbound since
        self.courier = VirtualCourier(world.clock, self, world.part_nbytes)
        self._forget_process()

    def _forget_process(self) -> None:
        self.machine = OrchestratorMachine(self.options)
        self.courier.close()
        self.courier = VirtualCourier(self.world.clock, self, self.world.part_nbytes)
        self.pending: dict[ActivationId, deque[str]] = {}  # in the order of their events
        self.held: dict[ActivationId, str] = {}
        self.mail.clear()
        self.tick = 0
        self.seen: Counter[str] = Counter()

    def start(self) -> None:
        self.boots += 1
        self.running = True
        self._forget_process()
        self.journal.generation += 1
        self.generations.append(self.journal.generation)
        now = self.world.clock.now
        runs = self.journal.replay(now)
        absences = tuple(self.journal.absences.items())
        times = tuple(self.journal.times.values())
        self.feed(
            ev.Started(
                f"o{self.boots}", self.journal.generation, runs, "http://:1", times, absences
            )
        )
        if self.world.model_there:
            self.feed(ev.ModelAdded(self.world.manifest))
        self.connect(clean=True)

    def crash(self) -> None:
        """Syncs under way may be lost; the journal stays."""
        self.running = self.connected = False
        self.boots += 1
        self.world.broker.drop(NAME)

    def connect(self, clean: bool = False) -> None:
        if self.connected:
            return
        self.connections += 1
        connection = f"o-c{self.connections}"
        will = OrchestratorState(
            "offline", connection, f"o{self.boots}", self.journal.generation, "0", 1
        )
        self.connected = True
        self.world.broker.connect(
            NAME, self._receive, Message("orchestrator/", record.encode(will)), clean=clean
        )
        self.courier.connected()
        self.feed(ev.Connected(connection))

    def lose_broker(self, away_s: float = 1.0) -> None:
        if self.running and self.connected:
            self.connected = False
            self.world.broker.drop(NAME)
            self.courier.disconnected()
            self.feed(ev.Disconnected("the broker is gone"))
            self._later(away_s, self.connect)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        boots = self.boots
        self.world.clock.later(seconds, lambda: act() if boots == self.boots else None)

    def feed(self, event: ev.Event) -> None:
        if not self.running:
            return
        self.seen[type(event).__name__] += 1
        if self.gathers and not isinstance(event, ev.Started | ev.Ticked):
            if not self.mail:
                self._later(GATHER_S, self._turn)
            self.mail.append(event)
        else:
            self._handle(event)

    def _turn(self) -> None:
        mail, self.mail = self.mail, []
        self._handle(*mail)

    def _handle(self, *events: ev.Event) -> None:
        for instruction in self.machine.handle_all(events, self.world.clock.now):
            if not isinstance(instruction, FOR_WATCHERS):
                getattr(self, f"_do_{type(instruction).__name__}")(instruction)
        if self.world.is_to_validate():
            self.machine.validate()
        self._set_alarm(isinstance(events[-1], ev.Ticked))

    def _set_alarm(self, ticked: bool) -> None:
        wake, now = self.machine.wake_at(), self.world.clock.now
        self.tick += 1
        if wake is None:
            return
        assert not ticked or wake > now, "the orchestrator wants to be woken again at once"
        tick = self.tick
        self._later(
            max(0.0, wake - now), lambda: self.feed(ev.Ticked()) if tick == self.tick else None
        )

    # what comes

    def _receive(self, message: Message) -> None:
        if not self.running:
            return
        if message.payload is None:
            return  # cleared: real shells ignore that too
        if message.kind == "data":
            self.courier.receive(*message.payload)
        else:
            self.feed(event_of(message))

    # the courier's owner

    def say(self, to: str, payload: bytes) -> None:
        self._publish(f"data/{to}", (NAME, payload))

    def take(self, sender: str, head: FrameHead, value: str) -> None:
        if self.running:
            self.feed(self._frame(sender, head, value))

    def lose(self, sender: str, activation: ActivationId, kind: str, reason: str) -> None:
        """What was given up on its way to others is only logged."""
        if sender:
            self.feed(ev.FrameLost(sender, activation, kind, reason))

    def _frame(self, sender: str, head: FrameHead, value: str) -> ev.Event:
        at = head.activation
        self.pending.setdefault(at, deque()).append(value)
        names = self.world.manifest.cuts[at.cut].names
        tensors = tuple(TensorHead(name, Element.FLOAT, (1, 8)) for name in names)
        seen = replace(head, tensors=tensors)
        if sender.startswith("clients/"):
            return ev.InputArrived(sender, seen)
        return ev.ResultArrived(sender, seen)

    def _oldest(self, at: ActivationId) -> str:
        waiting = self.pending[at]
        value = waiting.popleft()
        if not waiting:
            del self.pending[at]
        return value

    # what is told

    def _do_RaiseGeneration(self, each: ins.RaiseGeneration) -> None:  # noqa: N802
        self.journal.generation = max(self.journal.generation, each.above) + 1
        self.generations.append(self.journal.generation)
        raised = ev.GenerationRaised(self.journal.generation)
        self._later(SYNC_S, lambda: self.feed(raised))

    def _do_HoldInput(self, each: ins.HoldInput) -> None:  # noqa: N802
        assert each.activation not in self.held, "each input is held once"
        self.held[each.activation] = self._oldest(each.activation)

    def _do_DropHeld(self, each: ins.DropHeld) -> None:  # noqa: N802
        del self.held[each.activation]

    def _do_StoreRun(self, each: ins.StoreRun) -> None:  # noqa: N802
        held = {item: self.held.pop(ActivationId(each.run, item, 0)) for item in each.inputs}

        def stored() -> None:
            if self.world.disk_full:
                self._journal_failed("run", each.run, None)
                return
            self.journal.store_run(each, self.world.clock.now)
            for item, value in held.items():
                self.journal.store_input(each.run, item, value, self.world.clock.now)
            self.feed(ev.RunStored(each.run, each.inputs))

        self._later(SYNC_S, stored)

    def _do_StoreInput(self, each: ins.StoreInput) -> None:  # noqa: N802
        at, value = each.activation, self._oldest(each.activation)

        def stored() -> None:
            if self.world.disk_full:
                self._journal_failed("input", at.run, at.item)
                return
            self.journal.store_input(at.run, at.item, value, self.world.clock.now)
            self.feed(ev.InputStored(at.run, at.item))

        self._later(SYNC_S, stored)

    def _do_StoreOutcome(self, each: ins.StoreOutcome) -> None:  # noqa: N802
        value = self._oldest(each.activation) if each.activation else None
        since = self.up_since if self.up_since is not None else self.world.clock.now
        self.ended.setdefault((each.run, each.outcome.item), (self.world.clock.now, since))

        def stored() -> None:
            if self.world.disk_full:
                if each.outcome.kind is not None:
                    self.journal.told.add((each.run, each.outcome.item))
                self._journal_failed("outcome", each.run, each.outcome.item)
                return
            self.journal.store_outcome(each.run, each.outcome, value)
            self.feed(ev.OutcomeStored(each.run, each.outcome))

        self._later(SYNC_S, stored)

    def _journal_failed(
        self, what: Literal["run", "input", "outcome"], run: str, item: int | None
    ) -> None:
        self.feed(ev.JournalFailed(what, run, item, "disk_full", "the disk has no room left"))

    def _do_SearchPlan(self, each: ins.SearchPlan) -> None:  # noqa: N802
        told = answered(each)
        self._later(self.world.random.uniform(0.0, SEARCH_S), lambda: self.feed(told))

    def _do_StoreCount(self, each: ins.StoreCount) -> None:  # noqa: N802
        self.journal.runs[each.run].count = each.count

    def _do_StoreParty(self, each: ins.StoreParty) -> None:  # noqa: N802
        def stored() -> None:
            run = self.journal.runs.get(each.run)
            if run is not None:  # there is room for it also on a full disk
                run.record = replace(run.record, party=each.party)
                self.feed(ev.PartyStored(each.run, each.party))

        self._later(SYNC_S, stored)

    def _do_StoreEnding(self, each: ins.StoreEnding) -> None:  # noqa: N802
        def stored() -> None:
            run = self.journal.runs.get(each.run)
            if run is not None:  # else the disk had no room for the run itself
                run.fault = (each.kind, each.reason)

        self._later(SYNC_S, stored)

    def _do_StoreDeath(self, each: ins.StoreDeath) -> None:  # noqa: N802
        run = self.journal.runs.get(each.run)
        if run is not None:
            run.deaths[each.item, each.device, each.boot] = None

    def _do_ForgetDeath(self, each: ins.ForgetDeath) -> None:  # noqa: N802
        run = self.journal.runs.get(each.run)
        if run is not None:
            run.deaths.pop((each.item, each.device, each.boot), None)

    def _do_StoreAbsence(self, each: ins.StoreAbsence) -> None:  # noqa: N802
        self.journal.absences[each.device] = each.absent_s

    def _do_ForgetAbsence(self, each: ins.ForgetAbsence) -> None:  # noqa: N802
        self.journal.absences.pop(each.device, None)

    def _do_StoreTimes(self, each: ins.StoreTimes) -> None:  # noqa: N802
        for time in each.times:
            self.journal.times[time.model, time.exact, time.device, time.segment] = time

    def _do_ForgetTimes(self, each: ins.ForgetTimes) -> None:  # noqa: N802
        self.journal.times = {
            key: time
            for key, time in self.journal.times.items()
            if each.model != time.model and each.device != time.device
        }

    def _do_StoreAcknowledged(self, each: ins.StoreAcknowledged) -> None:  # noqa: N802
        self.journal.acknowledge(each.run, each.items)

    def _do_ForgetInputs(self, each: ins.ForgetInputs) -> None:  # noqa: N802
        run = self.journal.runs[each.run]
        for item in each.items:
            kept = item in run.outcomes or (each.run, item) in self.journal.told
            assert kept, "an input went before its outcome was on disk"
            run.inputs.pop(item, None)

    def _do_ForgetRun(self, each: ins.ForgetRun) -> None:  # noqa: N802
        self.journal.runs.pop(each.run, None)

    def _do_DiscardPending(self, each: ins.DiscardPending) -> None:  # noqa: N802
        if each.activation in self.pending:
            self._oldest(each.activation)

    def _do_SendInput(self, each: ins.SendInput) -> None:  # noqa: N802
        at = each.activation
        value = self.journal.runs[at.run].inputs[at.item]
        head = FrameHead(
            self.journal.runs[at.run].record.model,
            at,
            each.attempt,
            exact=each.options.exact,
            barrier=each.options.barrier,
            nbytes=FRAME_NBYTES,
            raw_nbytes=FRAME_RAW_NBYTES,
        )
        self.courier.send(each.to, head, value)

    def _do_SendResult(self, each: ins.SendResult) -> None:  # noqa: N802
        at = each.activation
        run = self.journal.runs[at.run]
        options = run.record.options
        head = FrameHead(
            run.record.model,
            at,
            0,
            exact=options.exact,
            barrier=options.barrier,
            nbytes=FRAME_NBYTES,
            raw_nbytes=FRAME_RAW_NBYTES,
        )
        self.courier.send(each.to, head, run.results[at.item])

    def _do_Respond(self, each: ins.Respond) -> None:  # noqa: N802
        payload = record.encode(each.response)
        assert record.decode(Response, payload) == each.response
        if isinstance(each.response, Accepted):
            self._check_stored(each.response.run, each.response.stored)
        elif isinstance(each.response, InputsStored):
            self._check_stored(each.response.run, each.response.ranges)
        self._publish(f"responses/{each.party}", payload)

    def _check_stored(self, run: str, ranges: tuple[tuple[int, int], ...]) -> None:
        """Nothing is told as stored before it is on disk, or ends without being there."""
        kept = self.journal.runs[run]
        for item in (i for first, last in ranges for i in range(first, last + 1)):
            known = self.machine.state.item(run, item)
            ending = known is not None and known.state == "ending"
            over = (run, item) in self.journal.ever or (run, item) in self.journal.told
            assert item in kept.inputs or over or ending, f"{run}/{item} is not on disk"

    def _do_PublishAssignment(self, each: ins.PublishAssignment) -> None:  # noqa: N802
        assert each.assignment.generation == self.machine.state.generation
        self.assignments.append((self.world.clock.now, each.device, each.assignment))
        self._publish(f"assignment/{each.device}", record.encode(each.assignment), keep=True)

    def _do_PublishCommands(self, each: ins.PublishCommands) -> None:  # noqa: N802
        for command in each.batch.commands:
            if isinstance(command, cmd.Release):
                self.world.check_release(each.device, command)
        self._publish(f"commands/{each.device}", record.encode(each.batch))

    def _do_ClearDevice(self, each: ins.ClearDevice) -> None:  # noqa: N802
        for leaf in ("state", "telemetry", "residency", "assignment"):
            self.world.broker.clear(NAME, f"{leaf}/{each.device}")

    def _do_PublishState(self, each: ins.PublishState) -> None:  # noqa: N802
        self._publish("orchestrator/", record.encode(each.state), keep=True)

    def _publish(self, topic: str, payload: object, keep: bool = False) -> None:
        """What is said while the broker is away is lost; everybody asks again."""
        self.world.broker.publish(NAME, topic, payload, keep)

    def check(self) -> None:
        """Bounds, and: whatever has no outcome yet can still be computed."""
        if not (self.running and self.connected):
            self.up_since = None
        elif self.up_since is None:
            self.up_since = self.world.clock.now
        gathering = self.machine.state.gathering
        assert {at.run for at in self.held} <= gathering.keys(), "a held input was left behind"
        spooled = 0
        for run in self.journal.runs.values():
            spooled += FRAME_NBYTES * len(run.inputs)
        assert spooled <= self.options.input_spool_nbytes
