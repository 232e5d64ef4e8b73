"""What people are told when partitions move: one sentence for each thing that happened.

A partition that loses its device is noted, and told of once it has another or none is to be had;
how the model is cut anew is told as such. Only runs with work hear of it, and nothing is kept for
others.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan, PlanKey
from orchestrator.machine.records.state import State
from orchestrator.machine.records.vacancy import Vacancy

NEVER = float("inf")
NAMES_LIMIT = 5
WORDS = {"unproven": "does not answer", "draining": "leaves"}


def what_became_of(state: State, name: str) -> str:
    """In some words, of a device that serves no more."""
    device = state.devices.get(name)
    if device is not None and state.now < device.benched_until:
        return f"{name} does nothing with what it was given"
    return f"{name} {WORDS.get(device.life.state, 'lost') if device is not None else 'lost'}"


def vacate(
    state: State, plan: Plan, device: str, placements: Iterable[Placement], why: str
) -> None:
    """These lost their device, for this reason."""
    if not state.runs.working(plan.key):
        return
    firsts = {each.partition.first for each in placements}
    for number, placement in enumerate(plan.placements, 1):
        if placement.partition.first in firsts:
            plan.vacated[placement.partition.first] = Vacancy(why, number, device)
    state.agenda.look("moves", plan.key)


def tell(state: State, key: PlanKey) -> float:
    """Say where partitions went that lost their device, or that they wait for one."""
    plan = state.plans.get(key)
    if plan is None or not plan.vacated or (plan.unplaceable and plan.search is not None):
        return NEVER
    sentences: dict[str, dict[str, list[int]]] = {}
    for first, vacancy in list(plan.vacated.items()):
        became = _became(plan, first, vacancy)
        if became is not None:
            why = "" if vacancy.told else vacancy.why
            sentences.setdefault(why, {}).setdefault(became, []).append(vacancy.number)
            vacancy.told = True
    for why, became_of in sentences.items():
        parts = [f"{_partitions(numbers)} {became}" for became, numbers in became_of.items()]
        _say(state, plan, ", ".join([why, *parts] if why else parts))
    return NEVER


def _became(plan: Plan, first: int, vacancy: Vacancy) -> str | None:
    """What is to be said of it now; None if nothing is, or not yet."""
    placement = plan.stage_of(first)
    if placement is None:
        del plan.vacated[first]
    elif placement.device is not None:
        del plan.vacated[first]
        back = placement.device == vacancy.device
        return f"{'back on' if back else 'moved to'} {placement.device}"
    elif placement.likely is None and not vacancy.told:
        return "without a device"
    return None


def _partitions(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"partition {numbers[0]}"
    return f"partitions {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def tell_recut(state: State, plan: Plan, before: int) -> None:
    """It has other ranges by now: `before` were so many."""
    whys = dict.fromkeys(each.why for each in plan.vacated.values() if not each.told)
    plan.vacated.clear()
    if not before:
        return
    names = list(dict.fromkeys(each.likely for each in plan.placements if each.likely))
    shown = ", ".join([*names[:NAMES_LIMIT], *(["…"] if len(names) > NAMES_LIMIT else [])])
    count = len(plan.placements)
    cut = f"the model is cut anew: {count} partition{'s' if count != 1 else ''} on {shown}"
    _say(state, plan, ", ".join([*whys, cut]))


def _say(state: State, plan: Plan, text: str) -> None:
    """To every run that is under way in the plan."""
    for run in state.runs.working(plan.key):
        if run.admitted:
            run.happen(text, state.now)
