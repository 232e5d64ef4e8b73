"""Models that can be served: they come from the store, and go with their runs."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.machine.plans.desired_state import publish_to_orphan
from orchestrator.machine.records.events import ModelAdded, ModelRemoved
from orchestrator.machine.records.instructions import ClearModel, ForgetTimes, PublishModel
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import aborting, credits
from wire.errors import UnknownModel
from wire.manifest import Manifest
from wire.messages.model import summary_of
from wire.messages.requests import Rejected

NEVER = float("inf")
GRACE_S = 10.0  # after a start, until every model in the store has been told


def added(state: State, event: ModelAdded) -> None:
    manifest = event.manifest
    state.models.add(manifest)
    for run in state.runs.of_model(manifest.digest):
        run.end_cut = len(manifest.segments)
        _weigh_inputs(state, run)
        state.agenda.look("plan", run.plan_key)
        run.touch()
    publish(state, manifest)


def publish(state: State, manifest: Manifest) -> None:
    """What clients see of it, with what its segments took if devices have run them."""
    if state.connection is None:
        return
    fast, exact = (state.estimates.of(manifest, mode) for mode in (False, True))
    known = exact if exact.measured and not fast.measured else fast
    took = tuple(known.segment_s(index) for index in range(len(manifest.segments)))
    state.emit(PublishModel(replace(summary_of(manifest), segment_s=took)))


def _weigh_inputs(state: State, run: Run) -> None:
    """Inputs from the journal, whose sizes it does not tell, count as large as they may be."""
    for item in run.items.values():
        if item.has_input and not item.nbytes:
            item.nbytes = credits.bound_nbytes(state, run)
            state.budget.spool(run, item.nbytes)


def removed(state: State, event: ModelRemoved) -> None:
    """Its runs end with an error, its partitions are evicted."""
    manifest = state.models.remove(event.name)
    if state.connection is not None:
        state.emit(ClearModel(event.name))
    if manifest is None:
        return
    told = f"model '{event.name}' was removed"
    if event.replaced:
        told = f"model '{event.name}' was replaced by another, or cut otherwise: run it again"
    for run in state.runs.of_model(manifest.digest):
        _fail_run(state, run, told)
    if manifest.digest not in state.manifests:
        state.estimates.forget_model(manifest.digest)
        state.places.forget_model(manifest.digest)
        state.emit(ForgetTimes(model=manifest.digest))
        for key in ((manifest.digest, exact) for exact in (False, True)):
            if key in state.plans:
                state.plans.remove(key)


def awaits_model(state: State, run: Run) -> bool:
    """The run is from before our start, and its model may still come from the store."""
    return run.model not in state.manifests and state.now < run.life.since + GRACE_S


def check(state: State, name: str) -> float:
    """A run of before whose model did not come back with us; when to look again."""
    run = state.runs.get(name)
    if run is None or not run.open or run.model in state.manifests or not run.items:
        return NEVER
    until = run.life.since + GRACE_S
    if state.now >= until:
        _fail_run(state, run, f"model '{run.model_name}' is not in the store any more")
        return NEVER
    return until


def check_devices(state: State, _: str) -> float:
    """Once, when all models are known; later, devices are looked at as they report."""
    if state.now < state.models_by:
        return state.models_by
    if state.connection is not None and not state.orphans_looked_at:
        state.orphans_looked_at = True
        for device in list(state.devices):
            publish_to_orphan(state, device)
    return NEVER


def _fail_run(state: State, run: Run, reason: str) -> None:
    if run.open:
        aborting.end(state, run, UnknownModel.kind, reason)
        state.respond(run.party, Rejected(run.run, UnknownModel.kind, reason))
