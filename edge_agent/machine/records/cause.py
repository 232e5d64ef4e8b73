"""Why something is done: the event, or the command in it, that the machine answers just now.

The machine sets it once for each event; every step of every `Lifecycle` notes it, so that a history
says why each state was entered. What is noted is the event itself, put into words only when
somebody looks; events that hold much are put into words at once, so that no history keeps an old
assignment in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge_agent.machine.records import events as happened
from wire.messages import commands as cmd


def stimulus_of(event: happened.Event) -> object:
    at_once = _LARGE.get(type(event))
    return event if at_once is None else at_once(event)


def in_words(stimulus: object) -> str:
    """As histories and logs show it."""
    words = _WORDS.get(type(stimulus))
    return str(stimulus) if words is None else words(stimulus)


def _short(digest: str) -> str:
    return digest[:12]


def _items(items: tuple[int, ...]) -> str:
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return ", ".join(map(str, items[:3])) + more if items else "all items"


_LARGE: dict[type, Callable[[Any], str]] = {
    happened.Started: lambda e: f"started as boot {e.boot}",
    happened.AssignmentArrived: (
        lambda e: f"assignment {e.assignment.generation}.{e.assignment.revision} arrived"
    ),
    happened.CommandsArrived: lambda e: f"commands of generation {e.batch.generation} arrived",
    happened.BlobsRemoved: lambda e: f"{len(e.digests)} blobs were removed",
    happened.SegmentsPrepared: lambda e: f"{len(e.prepared)} segments were prepared",
    happened.TelemetryRead: lambda e: "telemetry was read",
}

_WORDS: dict[type, Callable[[Any], str]] = {
    happened.Connected: lambda e: f"connected as {e.connection}",
    happened.StateCleared: lambda e: "the retained state was cleared",
    happened.Disconnected: lambda e: f"disconnected: {e.reason}",
    happened.OrchestratorSeen: (
        lambda e: f"orchestrator of generation {e.state.generation} is {e.state.status}"
    ),
    happened.OrderRefused: lambda e: f"an order came {e.fault}",
    happened.FrameArrived: lambda e: f"frame {e.head.activation} arrived from {e.sender}",
    happened.FrameLost: lambda e: f"frame {e.activation} was lost: {e.kind}",
    happened.FetchProgressed: lambda e: f"{e.nbytes} bytes of blob {_short(e.digest)} are here",
    happened.BlobFetched: lambda e: f"blob {_short(e.digest)} was fetched",
    happened.FetchFailed: lambda e: f"fetching blob {_short(e.digest)} failed: {e.kind}",
    happened.PartitionReady: lambda e: f"partition {e.partition} was loaded",
    happened.LoadRefused: lambda e: f"loading partition {e.partition} failed: {e.kind}",
    happened.PartitionGone: lambda e: f"partition {e.partition} was evicted",
    happened.TaskExecuted: lambda e: f"task {e.task} was executed",
    happened.ExecutionFailed: lambda e: f"task {e.task} failed: {e.kind}",
    happened.Ticked: lambda e: "time passed",
    happened.StopAsked: lambda e: f"asked to stop: {e.reason}",
    cmd.Send: lambda c: f"told to send {c.run}/{_items(c.items)}@{c.cut} to {c.to}",
    cmd.Release: lambda c: f"told to release {c.run}/{_items(c.items)}@{c.cut}",
    cmd.Open: lambda c: f"told to open {c.run}/{_items(c.items)}@{c.cut}",
    cmd.Cancel: lambda c: f"told to cancel {c.run}/{_items(c.items)}",
    cmd.Evict: lambda c: f"told to evict {len(c.digests)} blobs",
    cmd.Report: lambda c: "told to report",
    cmd.Ping: lambda c: f"pinged with {c.nonce}",
    cmd.Profile: lambda c: f"asked for the profile of {c.partition}",
    cmd.Acknowledge: lambda c: f"events up to {c.seq} were acknowledged",
}
