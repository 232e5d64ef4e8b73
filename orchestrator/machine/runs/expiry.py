"""When a run is over, and when it is forgotten: its client has all of it, or stayed away too long.

Runs that go on have the clients' own limits (see `clients`).
"""

from __future__ import annotations

from orchestrator.machine.records.instructions import ForgetRun
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from orchestrator.machine.runs.progress import publish
from wire.errors import RunCancelled, TimedOut

NEVER = float("inf")
OVER = "it is over, and all of its results were fetched"
DISOWNED = "it is over, and its client took no more of it"


def settle_end(state: State, name: str) -> float:
    """A run whose last item ended is done; one that its client has wholly is forgotten."""
    run = state.runs.get(name)
    if run is None:
        return NEVER
    if run.open and run.complete:
        whole = run.done == 0 and run.failed > 0
        run.move("failed" if whole else "done", state.now)
    if not run.open and run.kept and run.ended_at is None and not run.items:
        run.ended_at = state.now
    if run.ended_at is not None and (run.disowned or not run.outcomes):
        _forget(state, run)
    return NEVER


def _forget(state: State, run: Run) -> None:
    """Nothing of it is needed any more; its progress stays visible for a while."""
    publish(state, run)
    state.emit(ForgetRun(run.run))
    ending = (RunCancelled.kind, DISOWNED) if run.outcomes else (TimedOut.kind, OVER)
    state.leave_tombstone(run, *(run.fault or ending))
    state.clear_at[run.run] = state.now + state.options.clear_run_s
    state.agenda.look("clear", run.run)
    state.runs.remove(run)


def expire(state: State, name: str) -> float:
    """Forget a run that ended and whose results nobody fetched in time; when that would be."""
    run = state.runs.get(name)
    if run is None or run.open or run.items or not run.kept:
        return NEVER
    until = run.active_at + run.options.lifetime_s
    if state.now < until:
        return until
    if run.fault is None:
        lifetime_s = run.options.lifetime_s
        reason = f"its results were not fetched within its lifetime of {lifetime_s:.0f} s"
        run.fault = (TimedOut.kind, reason)
    state.counts["expired_run"] += 1
    _forget(state, run)
    return NEVER
