"""How many inputs a client may have under way, so that our disk never overflows.

A credit stands for one input at its bound. Each run may have `credit` of them, fewer as the
spool fills, none when it is full; a run without any input here always has one, so that none
starves. Whatever comes beyond is discarded, counted and told.
"""

from __future__ import annotations

from itertools import islice

from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from wire.messages.requests import InputsStored

NEVER = float("inf")
SHARE_COUNT = 8  # runs that are offered room at once; the next ones when more comes free
SAY_COUNT = 4  # so many stored inputs, or a quarter of what may come, are told at once


def bound_nbytes(state: State, run: Run) -> int:
    """One input's raw bytes at the model's bounds, and its frame."""
    manifest = state.manifests.get(run.model)
    raw = manifest.frame_bound_nbytes(0) if manifest is not None else 0
    return raw + state.options.frame_overhead_nbytes


def kept_nbytes(state: State, nbytes: int) -> int:
    """What an input of so many bytes counts for on disk. The smallest counts for what is known of
    it in memory, so that the bound on bytes bounds that as well."""
    return max(nbytes, state.options.frame_overhead_nbytes)


def credit_of(state: State, run: Run) -> int:
    if not run.attended:
        return 0
    options, each_nbytes = state.options, bound_nbytes(state, run)
    small = min(options.credit_most, options.credit_nbytes // each_nbytes)
    room = state.budget.room_nbytes(run) // each_nbytes
    least = 0 if run.spooled_nbytes else 1
    return max(least, min(max(options.credit, small), room))


def stored(state: State, run: Run, index: int) -> None:
    """One more input needs no credit any more; tell soon."""
    run.stored.add(index)
    run.unsaid += 1
    hurry = run.unsaid >= max(SAY_COUNT, run.granted // 4)
    run.say_by(state.now if hurry else state.now + state.options.coalesce_s, state.now)
    run.look_at_admission()  # a barrier run may be whole now


def told(state: State, run: Run) -> None:
    """The client is being told what is stored; `granted` is what may come."""
    run.unsaid, run.say_at = 0, NEVER
    state.budget.promise(run, credit_of(state, run), bound_nbytes(state, run))
    if run.granted == 0:
        run.look_at_admission()  # a barrier run begins with what is here


def say(state: State, run: Run) -> None:
    """Tell the client what is stored and what may come."""
    told(state, run)
    state.respond(run.party, InputsStored(run.run, run.stored.ranges(), run.granted))


def say_due(state: State, name: str) -> float:
    """Tell the run's client if it waits to hear; when it is due."""
    run = state.runs.get(name)
    if run is None:
        return NEVER
    if run.say_at <= state.now:
        say(state, run)
    return run.say_at


def share_out(state: State, _: str) -> float:
    """Room came free: tell those who were refused credit, in turn, as far as it goes."""
    some = list(islice(state.budget.refused.values(), SHARE_COUNT))
    for run in some:
        if credit_of(state, run) > 0:
            say(state, run)
            state.agenda.look("room", "")
        else:
            state.budget.wait_again(run)
    more = len(state.budget.refused) > len(some) and state.budget.any_room
    return state.now + state.options.coalesce_s if more else NEVER
