"""Connecting, meeting orchestrators, and the agent's own end."""

from __future__ import annotations

from edge_agent.machine.assignment.fetching import cancel_unlisted
from edge_agent.machine.connection.reporting import repeat_everything
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import (
    Connected,
    Disconnected,
    OrchestratorSeen,
    OrderRefused,
    Started,
    StateCleared,
    StopAsked,
)
from edge_agent.machine.records.instructions import (
    GiveUp,
    PublishState,
    StayDisconnected,
    Stop,
)
from wire.versions import mismatch

UNHEARD_S = 60.0  # without a word of the desk


def started(agent: Agent, event: Started, now: float) -> None:
    agent.life.move("offline", now, event.boot)
    agent.boot, agent.last_work = event.boot, event.last_work
    agent.generation = event.generation
    for digest in sorted(event.cached):
        agent.cache.add(digest, event.cached[digest], now)


def connected(agent: Agent, event: Connected, now: float) -> None:
    if event.reconnect and _replaced(agent, event):
        agent.life.move("replaced", now)
        agent.instruct(StayDisconnected("replaced", _replaced_reason(agent)))
        return
    if not event.reconnect and event.own_state is not None:
        agent.predecessor = event.own_state.boot
    agent.life.move("online", now, event.connection)
    agent.connection = event.connection
    _introduce(agent, now)
    agent.send_queued()


def state_cleared(agent: Agent, event: StateCleared, now: float) -> None:
    """Somebody cleared our retained state, believing us gone: introduce ourselves again."""
    if agent.online:
        _introduce(agent, now)


def _introduce(agent: Agent, now: float) -> None:
    """Publish our state, the events that were not acknowledged, and an inventory."""
    if agent.stopping:
        agent.instruct(PublishState(agent.state("draining", agent.stop_reason)))
    else:
        agent.instruct(PublishState(agent.state("online", agent.complaint or None)))
    repeat_everything(agent, now)
    agent.residency.say_again()
    agent.inventory_due = True


def _replaced(agent: Agent, event: Connected) -> bool:
    """Whether another agent is connected under our name: the retained state is of another boot and
    not `offline`, which that boot or its will would have published at its end.

    A broker that was killed may restore the state that it retained before we first connected: the
    boot named there is one that we replaced ourselves.
    """
    state = event.own_state
    if state is None or state.status == "offline":
        return False
    return state.boot not in (agent.boot, agent.predecessor)


def _replaced_reason(agent: Agent) -> str:
    return (
        f"another agent connected as {agent.device!r}: stop one of the two, or give this one "
        "another name"
    )


def disconnected(agent: Agent, event: Disconnected, now: float) -> None:
    if agent.online:
        agent.life.move("offline", now, event.reason)


def orchestrator_seen(agent: Agent, event: OrchestratorSeen, now: float) -> None:
    """A new generation, or a new connection of the same, may have missed our events. Its assignment
    comes by itself; until then we serve the last one. A lower generation than ours is a desk of
    an older journal, a restored backup's: it has to hear which one we obey, to rise above it. One
    that speaks another language is not obeyed: we wait for the next."""
    state = event.state
    agent.desk_heard_at = now
    if state.generation >= agent.generation:
        why = mismatch(agent.versions, state.versions)
        agent.foreign = why is not None
        _complain(agent, why or "")
        if agent.foreign:
            return
    risen = state.generation > agent.generation
    agent.note_generation(state.generation)
    if state.status == "offline":
        return
    if state.generation < agent.generation:
        agent.residency.say_again()
        return
    if risen or state.connection != agent.orchestrator_connection:
        agent.orchestrator_connection = state.connection
        repeat_everything(agent, now)


def order_refused(agent: Agent, event: OrderRefused, now: float) -> None:
    """If nothing comes that is the desk's, our key is of another: people should see why we do
    nothing. Otherwise somebody else speaks on its topics, and that is no fault of ours."""
    agent.counts[f"{event.fault}_orders"] += 1
    if now >= agent.desk_heard_at + UNHEARD_S:
        _complain(
            agent,
            f"the orders that come here are {event.fault}, not this agent's desk's: if the desk "
            f"is new, type what `crowdpipe device add {agent.device}` prints there now",
        )


def _complain(agent: Agent, reason: str) -> None:
    """Have people see why we obey nobody, or that we do again."""
    if reason == agent.complaint:
        return
    agent.complaint = reason
    if agent.online and not agent.stopping:
        agent.instruct(PublishState(agent.state("online", reason or None)))


def stop_asked(agent: Agent, event: StopAsked, now: float) -> None:
    begin_to_stop(agent, event.reason, now)


def begin_to_stop(agent: Agent, reason: str, now: float) -> None:
    """Start nothing any more, and publish `draining`; the first reason is kept."""
    if agent.stopping:
        return
    agent.stop_by, agent.stop_reason = now + agent.limits.stop_s, reason
    cancel_unlisted(agent)
    if agent.online:
        agent.instruct(PublishState(agent.state("draining", reason)))


def stop_when_done(agent: Agent, now: float) -> None:
    """Publish `offline` once no task runs, or at the limit. If ONNX Runtime never answers, the time
    until the limit is used all the same: others may ask for the outputs that are held here."""
    waits = agent.slot.busy == "executing" or agent.slot.stuck
    if agent.stop_by is None or (waits and now < agent.stop_by):
        return
    if agent.online:
        agent.instruct(PublishState(agent.state("offline", agent.stop_reason)))
    agent.life.move("stopped", now, agent.stop_reason)
    failure = agent.failure
    agent.instruct(GiveUp(failure.kind, failure.reason) if failure else Stop(agent.stop_reason))
