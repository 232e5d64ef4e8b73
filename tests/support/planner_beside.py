"""The machine with its searches answered at once, for tests that look at what one event brings."""

from __future__ import annotations

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records.events import Event, PlanSearched
from orchestrator.machine.records.instructions import Instruction, SearchPlan
from orchestrator.planner.question import answer


def handled(machine: OrchestratorMachine, event: Event, now: float) -> list[Instruction]:
    """What the machine says, and what it says to the answers of searches that it asks for."""
    out: list[Instruction] = []
    for each in machine.handle(event, now):
        if isinstance(each, SearchPlan):
            out += handled(machine, answered(each), now)
        else:
            out.append(each)
    machine.validate()
    return out


def answered(asked: SearchPlan) -> PlanSearched:
    found = answer(asked.question)
    return PlanSearched(asked.number, found.ranges, found.kind, found.reason, found.shortlist)
