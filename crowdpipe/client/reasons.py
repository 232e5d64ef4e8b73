"""Why the client gave up: what it waited for, how long, and what to start.

Each answer is the kind of a typed error and its sentence.
"""

from __future__ import annotations

from crowdpipe.client.runs import ClientRun
from crowdpipe.client.surroundings import ANSWER_LIMIT_S, Surroundings
from wire.errors import BrokerUnreachable, NoOrchestrator, TimedOut

UNEXPLAINED = (
    "; nothing is known to be in their way, so devices still fetch and load the model, or compute "
    "what came before (`crowdpipe devices` says what they do): give it longer"
)


def why_given_up(run: ClientRun, around: Surroundings) -> tuple[str, str]:
    limit_s = run.asked.limit_s
    if not around.connected or (run.state == "submitting" and run.waits is None):
        return why_unanswered(limit_s, around)
    told, kind = _missing(run), TimedOut.kind
    if around.online is False:
        told += "; the orchestrator is offline: start it again with `crowdpipe up`"
    elif run.waits is not None:
        kind, why = run.waits
        told = f"{why}; {told}"
    elif not (run.settled or run.unstored or run.starved):
        told += UNEXPLAINED
    reason = f"waited {limit_s:g} s for run {run.name} of '{run.asked.model}': {told}"
    return kind, reason


def _missing(run: ClientRun) -> str:
    if run.state == "submitting":
        return "it was not accepted"
    missing = run.offered - len(run.settled)
    told = f"{missing} of {run.offered} results are missing"
    if run.unstored:
        return f"{run.unstored} inputs are not stored by the orchestrator, and {told}"
    if not missing:
        return "the orchestrator accepts no more inputs: its disk space for inputs is full"
    return told


def why_unanswered(limit_s: float, around: Surroundings) -> tuple[str, str]:
    """Nothing was answered at all."""
    if not around.connected:
        reason = f"waited {limit_s:g} s for the broker: {around.why_not}"
        return BrokerUnreachable.kind, reason
    return NoOrchestrator.kind, _absent(around.online, min(limit_s, ANSWER_LIMIT_S))


def _absent(online: bool | None, waited_s: float) -> str:
    if online is None:
        return (
            "the broker is reachable, but no orchestrator has ever connected to it: "
            "start one with `crowdpipe up`"
        )
    if not online:
        return "the orchestrator is offline: start it again with `crowdpipe up`"
    return (
        f"the orchestrator did not answer within {waited_s:g} s, though its retained "
        "state says online: check that it is still running"
    )
