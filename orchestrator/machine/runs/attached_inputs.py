"""Runs with attached first inputs: all of it goes to disk in one piece, and is answered once.

A run that announces inputs waits for them, at most `GATHER_S`; what came by then is stored with it.
What is missing, faulty or beyond the bounds is not taken here: the answer does not list it, and
its client sends it again to the accepted run, where it is judged like any other input. So whatever
is refused before a run is on disk leaves nothing behind. Held frames count towards the courier's
bound like all that wait in memory. Of a run that was not announced no input is kept at all.
"""

from __future__ import annotations

from orchestrator.machine.records.events import FrameHead
from orchestrator.machine.records.instructions import DiscardPending, DropHeld, HoldInput, StoreRun
from orchestrator.machine.records.item import input_fault
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import credits
from wire.errors import RunCancelled
from wire.ids import ActivationId
from wire.messages.requests import ATTACHED_COUNT, ATTACHED_NBYTES

GATHER_S = 0.5  # at 20 Mbit/s, `ATTACHED_NBYTES` are here by then
NEVER = float("inf")


def begin(state: State, run: Run, attached: int) -> None:
    """Store the run, once the announced inputs are here."""
    most = ATTACHED_COUNT if run.count is None else min(ATTACHED_COUNT, run.count)
    run.awaited = set(range(min(attached, most)))
    run.gather_until = state.now + GATHER_S
    state.gathering[run.run] = run
    state.agenda.look_at("attached", run.run, run.gather_until)
    _store_if_whole(state, run)


def input_arrived(state: State, run: Run, head: FrameHead) -> None:
    """Hold it for the run's commit if it is one that was announced, and may be taken."""
    at = head.activation
    if at.item in run.awaited and _may_be_taken(state, run, head):
        item = run.arrive(at.item, state.now)
        item.nbytes, item.has_input = credits.kept_nbytes(state, head.nbytes), True
        state.budget.spool(run, item.nbytes)
        state.emit(HoldInput(at))
    else:
        state.counts["input_not_attached"] += 1
        state.emit(DiscardPending(at))
    run.awaited.discard(at.item)
    _store_if_whole(state, run)


def _may_be_taken(state: State, run: Run, head: FrameHead) -> bool:
    manifest = state.manifests.get(run.model)
    nbytes = credits.kept_nbytes(state, head.nbytes)
    fits = run.spooled_nbytes + nbytes <= ATTACHED_NBYTES
    room = fits and not state.budget.overflows(run, nbytes)
    return room and manifest is not None and input_fault(manifest, head) is None


def check(state: State, name: str) -> float:
    """Store the run if it waited long enough; when to look again."""
    run = state.gathering.get(name)
    if run is None:
        return NEVER
    if state.now < run.gather_until:
        return run.gather_until
    run.awaited.clear()
    _store_if_whole(state, run)
    return NEVER


def _store_if_whole(state: State, run: Run) -> None:
    if not run.awaited and run.checked:
        _store(state, run)


def approve(state: State, run: Run) -> None:
    """Devices could serve it."""
    run.checked = True
    _store_if_whole(state, run)


def reject(state: State, run: Run) -> None:
    """No devices could: its client is told, and may submit it again when there are others."""
    _drop(state, run)
    run.move("cancelled", state.now, "no devices could serve it")
    del state.gathering[run.run]
    state.runs.remove(run)


def _drop(state: State, run: Run) -> None:
    for index in run.items:
        state.emit(DropHeld(ActivationId(run.run, index, 0)))


def _store(state: State, run: Run) -> None:
    del state.gathering[run.run]
    for item in run.items.values():
        item.life.move("storing", state.now, "with its run")
    run.move("storing", state.now)
    state.emit(
        StoreRun(
            run.run,
            run.party,
            run.model_name,
            run.model,
            run.options,
            run.count,
            tuple(sorted(run.items)),
        )
    )


def stored(state: State, run: Run, inputs: tuple[int, ...]) -> None:
    """The run is on disk with these inputs. One that is not among them was never taken."""
    for index, item in list(run.items.items()):
        if index in inputs:
            item.life.move("stored", state.now, "with its run")
            run.enqueue(item)
            run.stored.add(index)
        else:
            run.drop(index)
            state.budget.spool(run, -item.nbytes)


def cancel(state: State, run: Run, reason: str) -> None:
    """Nothing of it is on disk, and nobody was told of it."""
    _drop(state, run)
    run.move("cancelled", state.now, reason)
    state.leave_tombstone(run, RunCancelled.kind, reason)
    del state.gathering[run.run]
    state.runs.remove(run)
