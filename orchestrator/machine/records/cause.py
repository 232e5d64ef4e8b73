"""What the machine answers, in words: histories show why each state was entered.

A history keeps the event itself where it is small, and words made at once where it holds much,
so that no history keeps an old manifest or a batch of frames in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.machine.records import events as happened


def stimulus_of(event: happened.Event) -> object:
    at_once = _LARGE.get(type(event))
    return event if at_once is None else at_once(event)


def in_words(stimulus: object) -> str:
    """As histories and logs show it."""
    words = _WORDS.get(type(stimulus))
    return str(stimulus) if words is None else words(stimulus)


_LARGE: dict[type, Callable[[Any], str]] = {
    happened.Started: lambda e: f"started in generation {e.generation} with {len(e.runs)} runs",
    happened.ModelAdded: lambda e: f"model {e.manifest.name} was added",
    happened.DeviceStateSeen: (
        lambda e: f"{e.device} said {e.state.status}{' (retained)' if e.retained else ''}"
    ),
    happened.TelemetrySeen: lambda e: f"telemetry of {e.device}",
    happened.ResidencySeen: (
        lambda e: f"{e.device} answered assignment {e.residency.generation}.{e.residency.revision}"
    ),
    happened.AssignmentSeen: lambda e: f"an assignment of {e.device} was retained",
    happened.EventsArrived: (
        lambda e: f"events {e.batch.first_seq} to {e.batch.last_seq} of {e.device}"
    ),
    happened.RequestArrived: lambda e: f"{e.request.type} from {e.party}",
    happened.InputArrived: lambda e: f"input {e.head.activation} from {e.party}",
    happened.ResultArrived: lambda e: f"result {e.head.activation} from {e.device}",
    happened.RunStored: lambda e: f"run {e.run} is on disk",
    happened.PlanSearched: lambda e: f"search {e.number} ended",
}

_WORDS: dict[type, Callable[[Any], str]] = {
    happened.GenerationRaised: lambda e: f"the generation rose to {e.generation}",
    happened.Connected: lambda e: f"connected as {e.connection}",
    happened.Disconnected: lambda e: f"disconnected: {e.reason}",
    happened.ModelRemoved: lambda e: (
        f"model {e.name} was {'replaced' if e.replaced else 'removed'}"
    ),
    happened.FrameLost: lambda e: f"frame {e.activation} of {e.sender} was lost: {e.kind}",
    happened.PartyStored: lambda e: f"that {e.party} has run {e.run} is on disk",
    happened.InputStored: lambda e: f"input {e.run}/{e.item} is on disk",
    happened.OutcomeStored: lambda e: f"the outcome of {e.run}/{e.outcome.item} is on disk",
    happened.JournalFailed: lambda e: f"the journal could not keep the {e.what} of {e.run}",
    happened.ForgetAsked: lambda e: f"{e.device} is to be forgotten",
    happened.Ticked: lambda e: "time passed",
}
