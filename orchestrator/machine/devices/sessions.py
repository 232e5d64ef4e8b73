"""Our own connection and generation."""

from __future__ import annotations

from orchestrator.machine.devices import identities, liveness
from orchestrator.machine.plans import desired_state
from orchestrator.machine.records.events import (
    Connected,
    Disconnected,
    GenerationRaised,
)
from orchestrator.machine.records.instructions import PublishState
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import models
from wire.messages.state import OrchestratorState

NEVER = float("inf")
CONTESTED_COUNT = 16  # of so many people are told


def connected(state: State, event: Connected) -> None:
    """Say everything again: what was published while we were away may be lost."""
    state.connection = event.connection
    if not state.met_broker and any(run.items for run in state.runs.values()):  # once
        state.settling.begin(state.now, state.options.settle_s)
    state.met_broker = True
    _publish_state(state)
    for manifest in state.models.values():
        models.publish(state, manifest)
    desired_state.publish_all(state)
    liveness.heard_again(state)
    for run in state.runs.values():
        run.show()
        run.look_at_all()
    for name in state.clear_at:
        state.agenda.look("clear", name)
    state.agenda.look("orphans", "")
    state.agenda.look("idle", "")
    state.agenda.look("unproven", "")
    for device in sorted(state.devices, key=lambda each: each.name):
        if state.is_engaged(device):
            device.reported_at = float("-inf")
            state.ask_report(device)


def disconnected(state: State, event: Disconnected) -> None:
    """Nothing is heard until we are back: no lease runs, nobody is asked."""
    state.connection = None


def generation_raised(state: State, event: GenerationRaised) -> None:
    """All assignments go out again under it; devices then say what they hold."""
    if event.generation <= state.generation:
        state.counts["stale_generation"] += 1
        return
    state.generation = event.generation
    desired_state.look_at_all(state)
    if state.connection is not None:
        _publish_state(state)


def _publish_state(state: State) -> None:
    state.emit(
        PublishState(
            OrchestratorState(
                status="online",
                connection=state.connection or "",
                boot=state.boot,
                generation=state.generation,
                version=state.options.version,
                wire_version=state.options.versions.newest,
                oldest_wire_version=state.options.versions.oldest,
                store_base=state.store_base,
                contested=state.contested_said,
            )
        )
    )


def say_contested(state: State, _: str) -> float:
    """Which names two agents use, if that changed; when one of them may be over."""
    names = identities.contested(state)
    if names[:CONTESTED_COUNT] != state.contested_said:
        state.contested_said = names[:CONTESTED_COUNT]
        if state.connection is not None:
            _publish_state(state)
    return min(state.contested.values(), default=NEVER)
