"""Plans, their placements, and what the totals by device have of them."""

from __future__ import annotations

from orchestrator.machine.invariants.checks import check, check_same
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State


def check_plans(state: State) -> None:
    for key, plan in state.plans.items():
        check(plan.key == key, f"plan {plan.key} is filed as {key}")
        _check_ranges(plan)
        _check_in_flight(state, plan)
        _check_vacated(state, plan)
        kept = key in state.plans.unplaceable
        check_same(f"plan {key}: waits for a device", kept, plan.unplaceable)
        check_same(
            f"plan {key}: bytes of one item by device", dict(state.plans.hops(plan)), plan.hops()
        )
    _check_reserved(state)
    _check_by_device(state)


def _check_ranges(plan: Plan) -> None:
    first = 0
    for placement in plan.placements:
        part = placement.partition
        check(part.first == first, f"plan {plan.key}: no range begins at segment {first}")
        assigned = placement.device is not None
        state = placement.life.state
        check((state != "planned") == assigned, f"{part} is {state} on {placement.device}")
        first = part.last + 1
    whole = first == plan.end or not plan.placements
    check(whole, f"plan {plan.key}: its ranges end before segment {first}")


def _check_in_flight(state: State, plan: Plan) -> None:
    runs = [run for run in state.runs.values() if run.plan_key == plan.key]
    admitted = {item.key for run in runs for item in run.in_flight.values()}
    check_same(f"plan {plan.key}: items in flight", set(plan.in_flight), admitted)
    for item in plan.in_flight.values():
        check(item.state == "admitted", lambda item=item: f"{item.life} is in flight")
    _check_suspects(state, plan)


def _check_vacated(state: State, plan: Plan) -> None:
    """What is yet to be told of partitions that moved is told to somebody."""
    looked = state.connection is not None and state.now >= state.settling.until
    needed = bool(state.runs.working(plan.key))
    check(not plan.vacated or needed or not looked, f"plan {plan.key}: {plan.vacated} for nobody")
    firsts = {each.partition.first for each in plan.placements}
    check(plan.vacated.keys() <= firsts, f"plan {plan.key}: {plan.vacated} of ranges before")


def _check_suspects(state: State, plan: Plan) -> None:
    for key, item in plan.suspects.items():
        check(item.state == "suspect", lambda item=item: f"{item.life} is set aside")
        check(state.item(*key) is item, f"plan {plan.key}: {key} is set aside, and gone")
    flying = plan.trial is None or plan.trial.key in plan.in_flight
    check(flying, lambda: f"plan {plan.key}: {plan.trial} is tried, and not in flight")
    check(plan.trial is not None or not plan.lonely, f"plan {plan.key}: lonely without a trial")
    alone = not plan.lonely or len(plan.in_flight) == 1
    check(alone, f"plan {plan.key}: {len(plan.in_flight)} items are in flight, and one is alone")


def _check_reserved(state: State) -> None:
    expected: dict[str, int] = {}
    for plan in state.plans.values():
        for device, nbytes in plan.hops().items():
            expected[device] = expected.get(device, 0) + nbytes * len(plan.in_flight)
    for device, nbytes in expected.items():
        check_same(f"bytes reserved on {device}", state.plans.reserved_nbytes(device), nbytes)


def _check_by_device(state: State) -> None:
    names = {device.name for device in state.devices}
    for plan in state.plans.values():
        names |= {*plan.hops(), *plan.devices()}
    for name in names:
        there = [
            plan.key
            for plan in state.plans.values()
            if name in plan.hops() or name in plan.devices()
        ]
        check_same(f"plans on {name}", [plan.key for plan in state.plans.on(name)], there)
