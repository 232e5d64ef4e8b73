"""A crowd in one process with the orchestrator's machine: events in, instructions out, the time.

Of `devices` devices those that the machine gives a partition answer as agents do; the others only
live: they were there before, answer pings and reports, say their telemetry, come and go. `runs`
runs are open and idle, each with a client that is there. All traffic is generated on the way, so
that what the process takes is the machine's. Instructions are answered by name (`_answers`);
one that nobody here knows is an error, since the machine may wait for its answer.

Time is the crowd's own and passes as things happen. All of it together stays well below the
lease of a silent device (35 s), so that not every device has to say something in it.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.crowd.agent import HOP_S, Agent
from benchmarks.crowd.client import Client
from benchmarks.crowd.clock import Clock
from benchmarks.crowd.device import (
    FORMER_STAMP,
    boot_of,
    connection_of,
    name_of,
    residency_of,
    state_of,
    telemetry_of,
)
from benchmarks.crowd.meter import SEARCH, Cost, Meter
from benchmarks.crowd.model import crossing, made_up_model, tensor_name
from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.planner.question import answer
from wire.elements import nbytes_of
from wire.errors import OperatorError, TimedOut
from wire.ids import ActivationId
from wire.messages import events as told
from wire.messages.requests import RunOptions
from wire.messages.residency import PartitionResidency
from wire.topics import ORCHESTRATOR

STORE_BASE = "http://:1"
PARTY = "clients/bench/1"
PARTITIONS = 4  # and so many devices serve
SYNC_S = 0.001  # until the journal has something on disk
SEARCH_S = 0.05  # of the crowd's time, however long the search takes
IDLE_CLIENTS = 100
TELEMETRY_EVERY_S = 10.0
BEATS = 40  # telemetry messages while a run is under way, from one device after the other
BEAT_S = 0.01
RESIDENCIES = 20
COMINGS = 10  # devices that connect anew while a run is under way
AWAY_S = 0.05
RUN_LIMIT_S = 120.0  # of the crowd's time
QUIET_S = 0.5
IGNORED = frozenset(
    {
        "ClearDevice",
        "ClearModel",
        "ClearRun",
        "DiscardPending",
        "DropHeld",
        "ForgetInputs",
        "ForgetRun",
        "ForgetTimes",
        "HoldInput",
        "PublishModel",
        "PublishRun",
        "PublishState",
        "StoreAcknowledged",
        "StoreCount",
        "StoreEnding",
        "StoreTimes",
    }
)
"""What needs no answer, and nobody of the crowd reads."""


class TooSlow(TimedOut):
    """What is measured takes so long that it is not waited for."""


class Crowd:
    """`start` first. Everything raises `TooSlow` once it is later than `until` (`time.monotonic`).
    `longest_ns`: the most that one event took since it was set to 0."""

    def __init__(self, devices: int, runs: int = 0) -> None:
        self.devices = devices
        self.runs = runs
        self.clock = Clock()
        self.meter = Meter()
        self.until = float("inf")
        self.longest_ns = 0
        self._machine = OrchestratorMachine()
        self._model = made_up_model()
        self._seqs = array("L", [0]) * devices
        self._connections = array("L", [1]) * devices
        self._agents: dict[int, Agent] = {}
        self._client = Client(self.clock, self._ask, self._feed)
        self._beats = 0
        self._submitted = 0
        self._answers: dict[str, Callable[[Any], None]] = {
            "RaiseGeneration": self._raise_generation,
            "StoreRun": self._store_run,
            "StoreInput": self._store_input,
            "StoreOutcome": self._store_outcome,
            "SendInput": self._send_input,
            "SendResult": lambda said: self._client.result(
                said.activation.run, said.activation.item
            ),
            "Respond": self._respond,
            "PublishAssignment": self._publish_assignment,
            "PublishCommands": self._publish_commands,
            "SearchPlan": self._search_plan,
        }

    # --- what is measured ---------------------------------------------------------------------

    def start(self) -> dict[str, Cost]:
        """The orchestrator starts anew: its journal, then all that is retained, in the order in
        which a broker hands it out. Then, not counted, each device says its next telemetry."""
        generation = FORMER_STAMP[0] + 1
        runs = tuple(map(self._idle_run, range(self.runs)))
        self._handle(ev.Started("boot", generation, runs, STORE_BASE), "start")
        self._handle(ev.ModelAdded(self._model), "start")
        self._handle(ev.Connected("connection"), "start")
        for say in (self._retained_state, self._retained_telemetry, self._retained_residency):
            for number in range(self.devices):
                say(number)
        for number in range(self.devices):
            self._handle(ev.AssignmentSeen(name_of(number), FORMER_STAMP[0]), "start")
        costs = self.meter.take()
        for number in range(self.devices):
            self.clock.later(TELEMETRY_EVERY_S * number / self.devices, self._beat)
        self._pass(TELEMETRY_EVERY_S, lambda: False)
        self._settle()
        return costs

    def run(self, items: int, *, comings: bool = False) -> dict[str, Cost]:
        """One run from submitting it until its last result is acknowledged, while devices say
        their telemetry; with `comings` some of the others also go and come back."""
        self.meter.take()
        for beat in range(BEATS):
            self.clock.later(BEAT_S * beat, self._beat)
        for number in self._idle(COMINGS) if comings else ():
            self.clock.later(BEAT_S * (number % COMINGS), partial(self._go, number))
        self._submitted += 1
        run, options = f"run-{self._submitted}", RunOptions(partitions=PARTITIONS)
        self._client.submit(run, self._model.name, items, options)
        self._pass(RUN_LIMIT_S, lambda: self._client.done)
        self._settle()
        if not self._client.done:
            raise OperatorError(f"the crowd's run of {items} items did not end")
        return self.meter.take()

    def residencies(self) -> dict[str, Cost]:
        """Devices that serve nothing say so."""
        self.meter.take()
        for number in self._idle(RESIDENCIES):
            self.residency_from(number, FORMER_STAMP, ())
        self._settle()
        return self.meter.take()

    @property
    def serving(self) -> int:
        """How many devices serve a partition."""
        return sum(agent.serves for agent in self._agents.values())

    # --- time passes --------------------------------------------------------------------------

    def _handle(self, event: ev.Event, kind: str) -> None:
        if time.monotonic() > self.until:
            raise TooSlow("it took too long")
        begun = time.thread_time_ns()
        instructions = self._machine.handle(event, self.clock.now)
        taken_ns = time.thread_time_ns() - begun
        self.meter.add(kind, taken_ns)
        self.longest_ns = max(self.longest_ns, taken_ns)
        for instruction in instructions:
            name = type(instruction).__name__
            if name in self._answers:
                self._answers[name](instruction)
            elif name not in IGNORED:
                raise OperatorError(f"the crowd has no answer to {name}: give it one")

    def _tell(self, event: ev.Event, kind: str, after_s: float = HOP_S) -> None:
        self.clock.later(after_s, lambda: self._handle(event, kind))

    def _pass(self, seconds: float, done: Callable[[], bool]) -> None:
        """Until it is done, or so much of the crowd's time has passed."""
        clock, end = self.clock, self.clock.now + seconds
        while not done():
            wake_at = self._machine.wake_at()
            due_at = end if wake_at is None else max(wake_at, clock.now)
            if min(clock.next_at, due_at) >= end:
                clock.now = end
                return
            if clock.next_at <= due_at:
                clock.step()
            else:
                clock.now = due_at
                self._handle(ev.Ticked(), "tick")

    def _settle(self) -> None:
        """What follows from what happened is over."""
        self._pass(QUIET_S, lambda: False)

    # --- the devices that only live -----------------------------------------------------------

    def _connection(self, number: int) -> str:
        return connection_of(name_of(number), self._connections[number])

    def _retained_state(self, number: int) -> None:
        state = state_of(number, self._connection(number))
        self._handle(ev.DeviceStateSeen(name_of(number), state, True), "start")

    def _retained_telemetry(self, number: int) -> None:
        said = telemetry_of(number, self._connection(number), 1000.0)
        self._handle(ev.TelemetrySeen(name_of(number), said, True), "start")

    def _retained_residency(self, number: int) -> None:
        said = residency_of(self._connection(number))
        self._handle(ev.ResidencySeen(name_of(number), said, True), "start")

    def _beat(self) -> None:
        number, self._beats = self._beats % self.devices, self._beats + 1
        said = telemetry_of(number, self._connection(number), 1000.0 + self.clock.now)
        self._tell(ev.TelemetrySeen(name_of(number), said, False), "telemetry")

    def _idle(self, count: int) -> list[int]:
        """Numbers of so many devices, or as many as there are, that never served."""
        found = (each for each in range(self.devices - 1, -1, -1) if each not in self._agents)
        return [number for number, _ in zip(found, range(count), strict=False)]

    def _go(self, number: int) -> None:
        state = state_of(number, self._connection(number), "offline")
        self._tell(ev.DeviceStateSeen(name_of(number), state, False), "state")
        self.clock.later(AWAY_S, lambda: self._come(number))

    def _come(self, number: int) -> None:
        self._connections[number] += 1
        state = state_of(number, self._connection(number))
        self._tell(ev.DeviceStateSeen(name_of(number), state, False), "state")
        self.events_from(number, (self._inventory(),), "life")

    def _command_idle(self, number: int, command: Any) -> None:
        if command.type == "ping":
            self.events_from(number, (told.Pong(command.nonce, self.clock.now),), "life")
        elif command.type == "report":
            self.events_from(number, (self._inventory(),), "life")

    def _inventory(self) -> told.Inventory:
        """A few blobs are cached since it last served; their names came in a message of its own."""
        blobs = self._model.blobs[:6]
        cached = tuple("".join((blob.digest[:32], blob.digest[32:])) for blob in blobs)
        return told.Inventory(*FORMER_STAMP, (), (), None, cached, ())

    # --- what devices say ---------------------------------------------------------------------

    def events_from(self, number: int, events: tuple[told.DeviceEvent, ...], kind: str) -> None:
        first, name = self._seqs[number] + 1, name_of(number)
        self._seqs[number] += len(events)
        batch = told.EventBatch(boot_of(name), self._connection(number), first, events)
        self._tell(ev.EventsArrived(name, batch), kind)

    def residency_from(
        self, number: int, stamp: tuple[int, int], partitions: tuple[PartitionResidency, ...]
    ) -> None:
        said = residency_of(self._connection(number), stamp, partitions)
        kind = "placed" if partitions else "residency"
        self._tell(ev.ResidencySeen(name_of(number), said, False), kind)

    def frame_from(self, number: int, at: ActivationId, to: str, attempt: int) -> None:
        if to == ORCHESTRATOR:
            self._tell(ev.ResultArrived(name_of(number), self._head(at)), "result")
        else:
            self._frame(name_of(number), at, to, attempt)

    def _frame(self, sender: str, at: ActivationId, to: str, attempt: int) -> None:
        agent = self._agent(to)
        self.clock.later(HOP_S, lambda: agent.frame(at, sender, attempt))

    def _head(self, at: ActivationId) -> ev.FrameHead:
        kind, shape = crossing(at.cut)
        nbytes = nbytes_of(kind, math.prod(shape))
        tensor = ev.TensorHead(tensor_name(at.cut), kind, shape)
        return ev.FrameHead(
            self._model.digest,
            at,
            0,
            exact=False,
            barrier=False,
            nbytes=nbytes,
            raw_nbytes=nbytes,
            tensors=(tensor,),
        )

    def _agent(self, name: str) -> Agent:
        number = int(name.rpartition("-")[2])
        if number not in self._agents:
            self._agents[number] = Agent(number, self)
        return self._agents[number]

    # --- clients ------------------------------------------------------------------------------

    def _idle_run(self, number: int) -> ev.StoredRun:
        party = f"clients/idle/{number % IDLE_CLIENTS}"
        model = self._model
        return ev.StoredRun(
            f"idle-{number}", party, model.name, model.digest, RunOptions(), None, (), (), 1.0
        )

    def _ask(self, request: Any) -> None:
        self._tell(ev.RequestArrived(PARTY, request), request.type)

    def _feed(self, run: str, item: int) -> None:
        self._tell(ev.InputArrived(PARTY, self._head(ActivationId(run, item, 0))), "input")

    # --- answers to instructions --------------------------------------------------------------

    def _raise_generation(self, said: Any) -> None:
        self._tell(ev.GenerationRaised(said.above + 1), "start", SYNC_S)

    def _store_run(self, said: Any) -> None:
        self._tell(ev.RunStored(said.run, said.inputs), "run_stored", SYNC_S)

    def _store_input(self, said: Any) -> None:
        at = said.activation
        self._tell(ev.InputStored(at.run, at.item), "input_stored", SYNC_S)

    def _store_outcome(self, said: Any) -> None:
        self._tell(ev.OutcomeStored(said.run, said.outcome), "outcome_stored", SYNC_S)

    def _search_plan(self, said: Any) -> None:
        """The search itself is not the machine's work: it has a kind of its own."""
        begun = time.thread_time_ns()
        found = answer(said.question)
        self.meter.add(SEARCH, time.thread_time_ns() - begun)
        event = ev.PlanSearched(
            said.number, found.ranges, found.kind, found.reason, found.shortlist
        )
        self._tell(event, "searched", SEARCH_S)

    def _send_input(self, said: Any) -> None:
        self._frame(ORCHESTRATOR, said.activation, said.to, said.attempt)

    def _respond(self, said: Any) -> None:
        if said.party == PARTY:
            self._client.hear(said.response)

    def _publish_assignment(self, said: Any) -> None:
        agent = self._agent(said.device)
        self.clock.later(HOP_S, lambda: agent.obey(said.assignment))

    def _publish_commands(self, said: Any) -> None:
        number = int(said.device.rpartition("-")[2])
        agent = self._agents.get(number)
        for command in said.batch.commands:
            if agent is None:
                self._command_idle(number, command)
            else:
                agent.command(command)
