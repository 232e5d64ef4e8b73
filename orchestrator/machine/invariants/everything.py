"""All checks of the machine's state, in an order in which the first that fails says most."""

from __future__ import annotations

from orchestrator.machine.invariants.agenda import check_agenda
from orchestrator.machine.invariants.devices import check_devices
from orchestrator.machine.invariants.models import check_models
from orchestrator.machine.invariants.places import check_places
from orchestrator.machine.invariants.plans import check_plans
from orchestrator.machine.invariants.runs import check_runs
from orchestrator.machine.records.state import State

CHECKS = (check_runs, check_plans, check_places, check_devices, check_models, check_agenda)


def validate(state: State) -> None:
    """Raises `InvariantBroken`."""
    for check in CHECKS:
        check(state)
