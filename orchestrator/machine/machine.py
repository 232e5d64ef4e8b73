"""The orchestrator's machine: takes one event, says what to do, and when to wake it.

Dispatch only: each kind of event goes to the module that knows it; what it touched is then looked
at, and what is due, in one fixed order. Of events that wait together, those of an item's way are
one step: each is handled, and what they touched is looked at once, which is most of the cost of
one. Nothing here reads a clock or does I/O; two machines that are told the same say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from orchestrator.machine import journal_answers, search_answers
from orchestrator.machine.devices import (
    forgetting,
    liveness,
    reports,
    residencies,
    result_frames,
    sessions,
)
from orchestrator.machine.invariants.everything import validate
from orchestrator.machine.items import recovery
from orchestrator.machine.plans import (
    assigning,
    barrier,
    desired_state,
    hedging,
    moves,
    planning,
    starving,
)
from orchestrator.machine.records.agenda import Look
from orchestrator.machine.records.cause import stimulus_of
from orchestrator.machine.records.events import (
    AssignmentSeen,
    Connected,
    DeviceStateSeen,
    Disconnected,
    Event,
    EventsArrived,
    ForgetAsked,
    FrameLost,
    GenerationRaised,
    InputArrived,
    InputStored,
    JournalFailed,
    ModelAdded,
    ModelRemoved,
    OutcomeStored,
    PartyStored,
    PlanSearched,
    RequestArrived,
    ResidencySeen,
    ResultArrived,
    RunStored,
    Started,
    TelemetrySeen,
    Ticked,
)
from orchestrator.machine.records.instructions import Instruction, PublishCommands
from orchestrator.machine.records.options import OrchestratorOptions
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import (
    admission,
    attached_inputs,
    clients,
    credits,
    expiry,
    models,
    obstacles,
    progress,
    requests,
)
from wire.messages.requests import AcknowledgeResults

SLEPT_S = 10.0  # woken so much later than asked for: it was us who were silent
STEPS: tuple[tuple[Look, Callable[[State, Any], float]], ...] = (
    ("attached", attached_inputs.check),
    ("idle", liveness.ask_silent),
    ("unproven", liveness.ask_unproven),
    ("device", liveness.check),
    ("absence", forgetting.check),
    ("contested", sessions.say_contested),
    ("fleet", planning.device_came_or_went),
    ("refusal", starving.end_refusal),
    ("client", clients.check),
    ("model", models.check),
    ("orphans", models.check_devices),
    ("search", search_answers.expired),
    ("plan", planning.ensure),
    ("overfull", admission.shed),
    ("admission", admission.admit),
    ("waiting", admission.check_waits),
    ("assignment due", assigning.assign_due),
    ("item", recovery.check),
    ("late", hedging.check),
    ("barrier", barrier.open_cuts),
    ("credit", credits.say_due),
    ("room", credits.share_out),
    ("end", expiry.settle_end),
    ("moves", moves.tell),
    ("obstacle", obstacles.look),
    ("progress", progress.publish_due),
    ("expiry", expiry.expire),
    ("clear", progress.clear),
    ("assignment", desired_state.publish_changed),
)
"""What is looked at after an event, in this order; each says when it wants to look again."""
ALONG_THE_WAY = frozenset({EventsArrived, InputArrived, InputStored, OutcomeStored, ResultArrived})
AGAIN_LIMIT = 8  # a look may give an earlier one something to do; what is left comes next


class OrchestratorMachine:
    def __init__(self, options: OrchestratorOptions | None = None) -> None:
        self.state = State(options or OrchestratorOptions())
        self._wake_at: float | None = None

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """What to do about `event` at `now` (seconds on one monotonic clock), in order."""
        return self._step((event,), now)

    def handle_all(self, events: Iterable[Event], now: float) -> list[Instruction]:
        """The same about several, in order, in as few steps as may be."""
        return [said for group in _steps(events) for said in self._step(group, now)]

    def _step(self, events: Sequence[Event], now: float) -> list[Instruction]:
        state = self.state
        slept = self._wake_at is not None and now > self._wake_at + SLEPT_S
        state.advance(now)
        for event in events:
            state.cause.stimulus = stimulus_of(event)
            if slept:
                liveness.heard_again(state)
                slept = False
            HANDLERS[type(event)](state, event)
        self._look_around()
        said = [*state.take_out(), *self._commands(), *state.take_inputs()]
        self._wake_at = self._next_wake()
        return said

    @property
    def cause(self) -> str:
        """What the last instructions answer, in words; of events that were one step, the last."""
        return str(self.state.cause)

    def validate(self) -> None:
        """Raises `InvariantBroken` if a record contradicts another. Looks at everything."""
        validate(self.state)

    def wake_at(self) -> float | None:
        """When `Ticked` is due; None if nothing waits for the time."""
        return self._wake_at

    def _look_around(self) -> None:
        """Look at what the event touched and what is due, until nothing is left."""
        state, agenda = self.state, self.state.agenda
        for _ in range(AGAIN_LIMIT):
            if not agenda.advance(state.now):
                return
            for kind, look in STEPS:
                for name in agenda.take(kind):
                    agenda.look_at(kind, name, look(state, name))

    def _next_wake(self) -> float | None:
        state = self.state
        wake = state.agenda.wake_at
        if state.connection is not None:
            wake = min(wake, state.commands.wake_at())
        return max(wake, state.now) if wake < float("inf") else None

    def _commands(self) -> list[Instruction]:
        state = self.state
        if state.connection is None:
            return []
        lines = state.commands.flush(state.now, state.generation)
        return [PublishCommands(device, batch) for device, batch in lines]


def _steps(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Events that are heard one after the other before anything is looked at. They bring items
    along; any other may change who is there or what is wanted, and is looked at alone."""
    group: list[Event] = []
    for event in events:
        if _goes_along(event):
            group.append(event)
            continue
        if group:
            yield group
        yield [event]
        group = []
    if group:
        yield group


def _goes_along(event: Event) -> bool:
    if isinstance(event, RequestArrived):
        return isinstance(event.request, AcknowledgeResults)
    return type(event) in ALONG_THE_WAY


def _state_seen(state: State, event: DeviceStateSeen) -> None:
    liveness.state_seen(state, event)


def _ticked(state: State, event: Ticked) -> None:
    """The steps that follow every event are all there is to do."""


def _requested(state: State, event: RequestArrived) -> None:
    requests.request_arrived(state, event.party, event.request)


HANDLERS: dict[type[Event], Callable[[State, Any], None]] = {
    Started: journal_answers.started,
    GenerationRaised: sessions.generation_raised,
    Connected: sessions.connected,
    Disconnected: sessions.disconnected,
    ModelAdded: models.added,
    ModelRemoved: models.removed,
    DeviceStateSeen: _state_seen,
    TelemetrySeen: reports.telemetry_seen,
    ResidencySeen: residencies.residency_seen,
    AssignmentSeen: residencies.assignment_seen,
    EventsArrived: reports.events_arrived,
    RequestArrived: _requested,
    InputArrived: requests.input_arrived,
    ResultArrived: result_frames.arrived,
    FrameLost: result_frames.frame_lost,
    RunStored: journal_answers.run_stored,
    PartyStored: journal_answers.party_stored,
    InputStored: journal_answers.input_stored,
    OutcomeStored: journal_answers.outcome_stored,
    JournalFailed: journal_answers.failed,
    PlanSearched: search_answers.answered,
    ForgetAsked: forgetting.forget_asked,
    Ticked: _ticked,
}
