"""What a run costs, in calls, whose model many devices refuse, and what each refusal costs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.machine.records import events as ev
from orchestrator.machine.records.device import Refusal
from tests.support.event_crowd import (
    MOST,
    NUMBERS,
    RANKED_SIZES,
    Crowd,
    Kind,
    assert_alike,
    crowds_of,
)
from wire.errors import LoadFailed, StoreUnreachable
from wire.ids import PartitionId
from wire.lifecycle import InvariantBroken
from wire.manifest import Manifest
from wire.messages.residency import Failure, PartitionResidency, Residency


def refused(crowd: Crowd, name: str, kind: str = LoadFailed.kind) -> Manifest:
    """A model of which each device refused each partition a moment ago."""
    model = crowd.add(name)
    count = len(model.segments)
    parts = [
        PartitionId(model.digest, False, first, last)
        for first in range(count)
        for last in range(first, count)
    ]
    until = crowd.now + crowd.machine.state.options.refuse_s
    for device in crowd.machine.state.devices:
        for part in parts:
            device.refuse(part, Refusal(Failure(kind, "it cannot"), until))
    crowd.begin(name, model)
    crowd.store(name, 0, model)
    assert crowd.machine.state.plans[model.digest, False].broken is not None
    return model


def submitted(crowd: Crowd) -> Iterator[ev.Event]:
    model = refused(crowd, "submitted")
    yield from (crowd.submit(f"a{index}", model) for index in NUMBERS())


def submitted_after_a_repair(crowd: Crowd) -> Iterator[ev.Event]:
    """The first run forgives what may be mended, device by device: the ones after it do not."""
    model = refused(crowd, "mended", StoreUnreachable.kind)
    yield from (crowd.submit(f"m{index}", model) for index in NUMBERS())


def first_input_arrived(crowd: Crowd) -> Iterator[ev.Event]:
    model = refused(crowd, "arrives")
    for index in NUMBERS():
        crowd.begin(f"b{index}", model)
        yield crowd.input(f"b{index}", 0, model)


def first_input_stored(crowd: Crowd) -> Iterator[ev.Event]:
    model = refused(crowd, "stored")
    for index in NUMBERS():
        crowd.begin(f"c{index}", model)
        crowd.tell(crowd.input(f"c{index}", 0, model))
        yield ev.InputStored(f"c{index}", 0)


def last_one_refuses(crowd: Crowd) -> Iterator[ev.Event]:
    """All others did so before: nobody is left, and its item fails with that."""
    for index in NUMBERS():
        model = refused(crowd, f"last{index}")
        crowd.tell(ev.ForgetAsked("own"))
        crowd.meet("own")
        crowd.begin(f"d{index}", model)
        crowd.store(f"d{index}", 0, model)
        plan = crowd.machine.state.plans[model.digest, False]
        assert plan.devices() == ["own"]
        yield failed(crowd, "own", plan.placements[0].partition)
        assert not plan.in_flight


def failed(crowd: Crowd, device: str, part: PartitionId) -> ev.Event:
    why = Failure(LoadFailed.kind, "it cannot")
    entry = PartitionResidency(part, "last", "failed", 0, 0, failure=why)
    told = crowd.machine.state.published[device]
    residency = Residency(f"{device}-c", told.generation, told.revision, (entry,), 0, 0)
    return ev.ResidencySeen(device, residency, False)


def a_refusal_ends(crowd: Crowd) -> Iterator[ev.Event]:
    model = refused(crowd, "ends")
    device = crowd.machine.state.devices.get("d0007")
    assert device is not None
    for part in list(device.refused):
        if part.model == model.digest:
            device.refuse(part, Refusal(Failure(LoadFailed.kind, "it cannot"), crowd.now))
            yield ev.Ticked()
            assert part not in device.refused


KINDS: tuple[Kind, ...] = (
    submitted,
    submitted_after_a_repair,
    first_input_arrived,
    first_input_stored,
    a_refusal_ends,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_others_refused_costs_nothing(crowds: tuple[Crowd, Crowd], kind: Kind) -> None:
    assert_alike(kind, crowds)


@pytest.mark.parametrize("name", RANKED_SIZES)
def test_the_last_refusal_costs_the_ranking_of_few_devices(name: str) -> None:
    for crowds in crowds_of(RANKED_SIZES[name]):
        assert_alike(last_one_refuses, crowds)


def test_what_nobody_can_serve_fails_at_the_cost_of_runs_that_have_items() -> None:
    """A thousand runs of the same model have none."""

    def fail(idle: int) -> int:
        crowd = Crowd()
        model = refused(crowd, "refused")
        for index in range(idle):
            crowd.begin(f"none{index}", model)
        return crowd.cost(crowd.input("none0", 0, model))

    assert fail(1000) <= MOST * fail(1)


def test_a_refusal_that_is_not_listed_is_found() -> None:
    crowd = Crowd()
    refused(crowd, "refused")
    crowd.machine.validate()
    crowd.machine.state.devices.refusals.usable.popitem()
    with pytest.raises(InvariantBroken, match="who may have work, and refused"):
        crowd.machine.validate()
