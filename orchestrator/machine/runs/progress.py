"""What a watcher sees of a run, and when a run is over and forgotten."""

from __future__ import annotations

from orchestrator.machine.records.instructions import ClearRun, ForgetRun, PublishRun
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from wire.errors import TimedOut
from wire.messages.requests import RunProgress

NEVER = float("inf")
OVER = "this run is over: all of its results were fetched"


def step(state: State) -> float:
    settle_ends(state)
    return min(publish_due(state), expire(state))


def settle_ends(state: State) -> None:
    """Runs whose last item ended are done; those that the client has wholly are forgotten."""
    for run in list(state.runs.values()):
        if run.open and run.complete:
            whole = run.done == 0 and run.failed > 0
            run.life.move("failed" if whole else "done", state.now)
            run.progress_dirty = True
        if not run.open and run.kept and run.ended_at is None and not run.items:
            run.ended_at = state.now
        if run.ended_at is not None and not run.outcomes:
            forget(state, run)


def forget(state: State, run: Run) -> None:
    """Nothing of it is needed any more; its progress stays visible for a while."""
    publish(state, run)
    state.emit(ForgetRun(run.run))
    state.leave_tombstone(run.run, *(run.fault or (TimedOut.kind, OVER)))
    state.clear_at[run.run] = state.now + state.options.clear_run_s
    del state.runs[run.run]


def publish(state: State, run: Run) -> None:
    if state.connection is None:
        return
    run.progress_dirty, run.progress_at = False, state.now
    manifest = state.manifests.get(run.model)
    state.emit(
        PublishRun(
            RunProgress(
                run=run.run,
                model=manifest.name if manifest is not None else run.model_name,
                status=run.status,
                exact=run.options.exact,
                barrier=run.options.barrier,
                transport=run.options.transport,
                count=run.count,
                stored=len(run.stored),
                admitted=run.admitted,
                done=run.done,
                failed=run.failed,
                elapsed_s=(state.now if run.ended_at is None else run.ended_at) - run.begun_at,
                reason=run.reason,
            )
        )
    )


def publish_due(state: State) -> float:
    """Progress at most once in `progress_s` per run, and at once when the status changed."""
    if state.connection is None:
        return NEVER
    wake = NEVER
    for run in state.runs.values():
        if not run.progress_dirty or not run.kept:
            continue
        due_at = run.progress_at + state.options.progress_s
        if state.now >= due_at or run.life.since > run.progress_at:
            publish(state, run)
        else:
            wake = min(wake, due_at)
    return wake


def expire(state: State) -> float:
    """Forget runs that ended and whose results nobody fetched in time, and clear old progress.
    Runs that go on have the clients' own limits (see `clients`)."""
    wake = NEVER
    for run in list(state.runs.values()):
        until = run.active_at + run.options.lifetime_s
        if run.open or run.items or not run.kept:
            continue
        if state.now >= until:
            _expire_run(state, run)
        else:
            wake = min(wake, until)
    for name, clear_at in list(state.clear_at.items()):
        if state.now >= clear_at and state.connection is not None:
            del state.clear_at[name]
            state.emit(ClearRun(name))
        elif state.connection is not None:
            wake = min(wake, clear_at)
    return wake


def _expire_run(state: State, run: Run) -> None:
    if run.fault is None:
        lifetime_s = run.options.lifetime_s
        reason = f"its results were not fetched within its lifetime of {lifetime_s:.0f} s"
        run.fault = (TimedOut.kind, reason)
    state.counts["expired_run"] += 1
    forget(state, run)
