"""What a watcher sees of a run, and for how long. When a run is over is decided in `expiry`."""

from __future__ import annotations

from orchestrator.machine.records.instructions import ClearRun, PublishRun
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from wire.messages.progress import Happening, RunProgress
from wire.messages.requests import RunNews

NEVER = float("inf")


def publish(state: State, run: Run) -> None:
    if state.connection is None:
        return
    run.progress_dirty, run.progress_at = False, state.now
    state.emit(PublishRun(progress_of(state, run)))
    if not run.unread:
        for number, text in run.happenings.untold():
            state.respond(run.party, RunNews(run.run, (state.generation, number), text))


def progress_of(state: State, run: Run) -> RunProgress:
    manifest = state.manifests.get(run.model)
    return RunProgress(
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
        attended=not run.unread and not run.silent,
        happened=tuple(Happening(at - run.begun_at, text) for at, text in run.happenings.latest),
    )


def publish_due(state: State, name: str) -> float:
    """Progress at most once in `progress_s`, and at once when the status changed."""
    run = state.runs.get(name)
    if run is None or state.connection is None or not run.progress_dirty or not run.kept:
        return NEVER
    due_at = run.progress_at + state.options.progress_s
    if state.now >= due_at or run.life.since > run.progress_at:
        publish(state, run)
        return NEVER
    return due_at


def clear(state: State, name: str) -> float:
    """A run that is forgotten was visible long enough."""
    at = state.clear_at.get(name)
    if at is None or state.connection is None:
        return NEVER
    if state.now < at:
        return at
    del state.clear_at[name]
    state.emit(ClearRun(name))
    return NEVER
