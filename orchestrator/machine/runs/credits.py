"""How many inputs a client may have under way, so that our disk never overflows.

A credit stands for one input at its bound. Each run may have `credit` of them, fewer as the
spool fills, none when it is full; a run without any input here always has one, so that none
starves. Whatever comes beyond is discarded, counted and told.
"""

from __future__ import annotations

from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from wire.messages.requests import InputsStored

NEVER = float("inf")
SAY_COUNT = 4  # so many stored inputs are told at once, without waiting for more


def bound_nbytes(state: State, run: Run) -> int:
    """One input's raw bytes at the model's bounds, and its frame."""
    manifest = state.manifests.get(run.model)
    raw = manifest.cuts[0].bound_nbytes if manifest is not None else 0
    return raw + state.options.frame_overhead_nbytes


def credit_of(state: State, run: Run) -> int:
    if not run.attended:
        return 0
    taken = sum(
        other.spooled_nbytes
        + (other.granted * bound_nbytes(state, other) if other is not run else 0)
        for other in state.runs.values()
    )
    room = max(0, state.options.input_spool_nbytes - taken) // bound_nbytes(state, run)
    least = 0 if run.spooled_nbytes else 1
    return max(least, min(state.options.credit, room))


def overflows(state: State, run: Run, nbytes: int) -> bool:
    """Whether an input has no room: its client sent more than it was allowed."""
    taken = sum(other.spooled_nbytes for other in state.runs.values())
    return run.spooled_nbytes > 0 and taken + nbytes > state.options.input_spool_nbytes


def stored(state: State, run: Run, index: int) -> None:
    """One more input needs no credit any more; tell soon."""
    run.stored.add(index)
    run.unsaid += 1
    run.say_at = min(run.say_at, state.now + state.options.coalesce_s)
    if run.unsaid >= SAY_COUNT:
        run.say_at = state.now


def told(state: State, run: Run) -> None:
    """The client is being told what is stored; `granted` is what may come."""
    run.unsaid, run.say_at = 0, NEVER
    run.granted = credit_of(state, run)


def say(state: State, run: Run) -> None:
    """Tell the client what is stored and what may come."""
    told(state, run)
    state.respond(run.party, InputsStored(run.run, run.stored.ranges(), run.granted))


def say_due(state: State) -> float:
    """Tell whoever waits to hear, also those whose credit came back; when the next is due."""
    wake = NEVER
    for run in state.runs.values():
        starved = run.open and run.granted == 0 and credit_of(state, run) > 0
        if run.say_at <= state.now or starved:
            say(state, run)
        wake = min(wake, run.say_at)
    return wake
