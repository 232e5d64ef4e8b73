"""The machine's instructions, carried out by the adapters: one function each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import astuple
from typing import Any

from bus.connection import Connection
from bus.courier import Courier
from bus.parcels import FrameSource
from orchestrator.adapters.desk_key import DeskKey
from orchestrator.adapters.journal import Journal
from orchestrator.adapters.plan_search import PlanSearch
from orchestrator.machine.records import instructions as told
from orchestrator.machine.records.events import (
    InputStored,
    JournalFailed,
    Outcome,
    OutcomeStored,
    PartyStored,
    PlanSearched,
    RunStored,
)
from orchestrator.machine.records.instructions import Instruction
from orchestrator.planner.question import Answer
from orchestrator.shell.inbound import Inbound
from orchestrator.shell.journaled_frames import JournaledInput, JournaledResult
from orchestrator.shell.mailbox import Mailbox
from wire.errors import CrowdpipeError, OperatorError, QueueFull
from wire.frames import peek
from wire.ids import ActivationId
from wire.messages.requests import Response
from wire.outbox import Message
from wire.record import encode
from wire.topics import JSON_CONTENT_TYPE, Topics

COMMAND_EXPIRY_S = 60
RESPONSE_EXPIRY_S = 300
RUN_EXPIRY_S = 24 * 3600
RETAINED_OF_A_DEVICE = ("state", "telemetry", "residency", "assignment")

_log = logging.getLogger("crowdpipe.orchestrator")


class Outbound:
    def __init__(
        self,
        mailbox: Mailbox,
        topics: Topics,
        journal: Journal,
        courier: Courier,
        connection: Connection,
        inbound: Inbound,
        planner: PlanSearch,
        key: DeskKey,
    ) -> None:
        self._mailbox = mailbox
        self._topics = topics
        self._journal = journal
        self._courier = courier
        self._connection = connection
        self._inbound = inbound
        self._planner = planner
        self._key = key
        self._frames = inbound.frames
        self._ways: dict[type[Instruction], Callable[[Any], None]] = {
            told.RaiseGeneration: self._raise_generation,
            told.HoldInput: lambda said: self._frames.hold(said.activation),
            told.DropHeld: lambda said: self._frames.take_held(said.activation),
            told.StoreRun: self._store_run,
            told.StoreInput: self._store_input,
            told.StoreOutcome: self._store_outcome,
            told.StoreCount: lambda said: journal.store_count(said.run, said.count),
            told.StoreParty: self._store_party,
            told.StoreEnding: lambda said: journal.end_run(said.run, said.kind, said.reason),
            told.StoreTimes: lambda said: journal.store_times(
                [astuple(each) for each in said.times]
            ),
            told.ForgetTimes: lambda said: journal.forget_times(said.model, said.device),
            told.StoreDeath: lambda said: journal.store_death(*astuple(said)),
            told.ForgetDeath: lambda said: journal.forget_death(*astuple(said)),
            told.StoreAbsence: lambda said: journal.store_absence(said.device, said.absent_s),
            told.ForgetAbsence: lambda said: journal.forget_absence(said.device),
            told.StoreAcknowledged: lambda said: journal.acknowledge(said.run, said.items),
            told.ForgetInputs: lambda said: journal.forget_inputs(said.run, said.items),
            told.ForgetRun: self._forget_run,
            told.SearchPlan: self._search_plan,
            told.DiscardPending: self._discard_pending,
            told.SendInput: self._send_input,
            told.SendResult: self._send_result,
            told.Respond: lambda said: self.respond(said.party, said.response),
            told.PublishAssignment: self._publish_assignment,
            told.PublishCommands: self._publish_commands,
            told.PublishModel: self._publish_model,
            told.ClearModel: lambda said: self._clear(topics.model(said.name)),
            told.PublishRun: self._publish_run,
            told.ClearRun: lambda said: self._clear(topics.run(said.run)),
            told.ClearDevice: self._clear_device,
            told.PublishState: self._publish_state,
        }

    def carry_out(self, instructions: Iterable[Instruction]) -> None:
        """In this order."""
        with self._journal.together():
            for said in instructions:
                self._ways[type(said)](said)

    # --- the journal --------------------------------------------------------------------------

    def _raise_generation(self, said: told.RaiseGeneration) -> None:
        def raised(generation: int | None, error: CrowdpipeError | None) -> None:
            if generation is not None:
                self._inbound.raised(generation)
            else:
                self._inbound.ended(error or OperatorError("the generation was not raised"))

        self._journal.raise_generation(said.above, raised)

    def _store_run(self, said: told.StoreRun) -> None:
        held = {
            item: self._frames.take_held(ActivationId(said.run, item, 0)) for item in said.inputs
        }
        inputs = [(item, frame) for item, frame in held.items() if frame is not None]

        def stored(error: CrowdpipeError | None) -> None:
            if error is None:
                self._mailbox.answer(RunStored(said.run, tuple(item for item, _ in inputs)))
            else:
                self._journal_failed("run", said.run, None, error)

        self._journal.store_run(said, stored, inputs)

    def _store_party(self, said: told.StoreParty) -> None:
        def stored(error: CrowdpipeError | None) -> None:
            if error is None:  # else the journal logs it, and whoever collects asks again
                self._mailbox.answer(PartyStored(said.run, said.party))

        self._journal.store_party(said.run, said.party, stored)

    def _store_input(self, said: told.StoreInput) -> None:
        at = said.activation

        def stored(error: CrowdpipeError | None) -> None:
            if error is None:
                self._mailbox.answer(InputStored(at.run, at.item))
            else:
                self._journal_failed("input", at.run, at.item, error)

        frame = self._frames.take(at)
        if frame is None:
            stored(OperatorError(f"the bytes of {at} are not here any more; send it again"))
        else:
            self._journal.store_input(at.run, at.item, frame, stored)

    def _store_outcome(self, said: told.StoreOutcome) -> None:
        run, outcome = said.run, said.outcome

        def stored(first: Outcome | None, error: CrowdpipeError | None) -> None:
            if first is None or error is not None:
                error = error or OperatorError("the journal kept nothing")
                self._journal_failed("outcome", run, outcome.item, error)
                return
            self._mailbox.answer(OutcomeStored(run, first))

        frame = None
        if said.activation is not None:
            frame = self._frames.take(said.activation)
            if frame is None:
                stored(None, OperatorError(f"the bytes of {said.activation} are not here any more"))
                return
        self._journal.store_outcome(run, outcome, frame, stored)

    def _search_plan(self, said: told.SearchPlan) -> None:
        def found(answer: Answer) -> None:
            self._mailbox.answer(
                PlanSearched(
                    said.number, answer.ranges, answer.kind, answer.reason, answer.shortlist
                )
            )

        self._planner.ask(said.question, found)

    def _discard_pending(self, said: told.DiscardPending) -> None:
        self._frames.take(said.activation)

    def _journal_failed(self, what: Any, run: str, item: int | None, error: CrowdpipeError) -> None:
        self._mailbox.answer(JournalFailed(what, run, item, error.kind, error.reason))

    def _forget_run(self, said: told.ForgetRun) -> None:
        self._courier.forget_run(said.run)
        self._journal.forget_run(said.run)

    # --- frames -------------------------------------------------------------------------------

    def _send_input(self, said: told.SendInput) -> None:
        settings = said.options.frame_settings
        source = JournaledInput(self._journal, said.activation, said.attempt, settings)
        self._send(said.to, said.activation, source)

    def _send_result(self, said: told.SendResult) -> None:
        at = said.activation
        source = JournaledResult(self._journal, at.run, at.item)
        if at.cut == 0:  # of a run from before our start, whose model is not told yet, or gone
            frame = source.load()
            at = at if frame is None else peek(frame).activation
        self._send(said.to, at, source)

    def _send(self, to: str, activation: ActivationId, source: FrameSource) -> None:
        try:
            self._courier.send(to, activation, source)
        except QueueFull as error:  # it is asked for again
            _log.error("not sent to %s: %s", to, error)

    # --- messages -----------------------------------------------------------------------------

    def respond(self, party: str, response: Response) -> None:
        """Safe to call from any thread."""
        topic = self._topics.client(party, "responses")
        self._say(topic, response, expiry_s=RESPONSE_EXPIRY_S)

    def _publish_assignment(self, said: told.PublishAssignment) -> None:
        topic = self._topics.device(said.device, "assignment")
        self._keep(topic, said.assignment, order=True)

    def _publish_commands(self, said: told.PublishCommands) -> None:
        topic = self._topics.device(said.device, "commands")
        self._say(topic, said.batch, expiry_s=COMMAND_EXPIRY_S, order=True)

    def _publish_model(self, said: told.PublishModel) -> None:
        self._keep(self._topics.model(said.summary.name), said.summary)

    def _publish_run(self, said: told.PublishRun) -> None:
        self._keep(self._topics.run(said.progress.run), said.progress, RUN_EXPIRY_S)

    def _publish_state(self, said: told.PublishState) -> None:
        self._keep(self._topics.orchestrator_state, said.state, order=True)

    def _clear_device(self, said: told.ClearDevice) -> None:
        for leaf in RETAINED_OF_A_DEVICE:
            self._clear(self._topics.device(said.device, leaf))

    def _say(
        self, topic: str, record: Any, expiry_s: int | None = None, *, order: bool = False
    ) -> None:
        said = Message(topic, encode(record), expiry_s=expiry_s, content_type=JSON_CONTENT_TYPE)
        self._publish(self._key.signed(said) if order else said)

    def _keep(
        self, topic: str, record: Any, expiry_s: int | None = None, *, order: bool = False
    ) -> None:
        said = Message(
            topic,
            encode(record),
            retain=True,
            expiry_s=expiry_s,
            content_type=JSON_CONTENT_TYPE,
            coalesce=True,
        )
        self._publish(self._key.signed(said) if order else said)

    def _clear(self, topic: str) -> None:
        self._publish(Message(topic, b"", retain=True, coalesce=True))

    def _publish(self, message: Message) -> None:
        """At the outbox's bound the message is dropped: what matters is asked for or said again."""
        try:
            self._connection.publish(message)
        except QueueFull as error:
            _log.error("not published: %s", error)
