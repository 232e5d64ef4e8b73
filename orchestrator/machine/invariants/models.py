"""Which models can be served, and of which devices something was measured on each."""

from __future__ import annotations

from orchestrator.machine.invariants.checks import check, check_same
from orchestrator.machine.records.state import State


def check_models(state: State) -> None:
    for name, manifest in state.models.items():
        check(manifest.name == name, f"model {manifest.name} is filed as {name}")
    digests = {manifest.digest for manifest in state.models.values()}
    check_same("digests of models", set(state.manifests), digests)
    unlisted = state.estimates.unlisted()
    check(not unlisted, f"what was measured would not be found with its device: {unlisted}")
