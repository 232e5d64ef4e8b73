"""How many items of a run may be computed at once, and what devices are told of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.machine.records import instructions as ins
from orchestrator.machine.runs.batch_sizes import AUTO_MOST, batch_size_of
from tests.support.fake_fleet import World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.errors import InvalidInput
from wire.manifest import Batching, Manifest, Reference
from wire.messages import requests as req
from wire.messages.assignment import BatchTerms
from wire.messages.requests import BATCH_AUTO, RunOptions


def batched(cuts: tuple[int, ...] = (0, 1, 2, 3), bound: int = 16) -> Manifest:
    found = Batching("batch", cuts) if cuts else Batching(refused="rows depend on each other")
    manifest = tiny_manifest(weights=[10 * MB] * 3)
    symbols = {**manifest.symbols, "batch": bound}
    return replace(manifest, symbols=symbols, reference=Reference("1", 0.0, batching=found))


def test_without_the_option_each_item_is_computed_alone() -> None:
    assert batch_size_of(batched(), RunOptions()) == 1
    assert batch_size_of(batched(), RunOptions(exact=True)) == 1


def test_auto_takes_what_the_model_allows_and_not_too_many() -> None:
    auto = RunOptions(batch_size=BATCH_AUTO)
    assert batch_size_of(batched(), auto) == AUTO_MOST
    assert batch_size_of(batched(bound=3), auto) == 3
    assert batch_size_of(batched(cuts=()), auto) == 1
    assert batch_size_of(replace(batched(), reference=None), auto) == 1


@pytest.mark.parametrize(
    ("manifest", "options", "why"),
    [
        (batched(), RunOptions(exact=True, batch_size=4), "exact run computes each item alone"),
        (batched(), RunOptions(exact=True, batch_size=BATCH_AUTO), "exact run"),
        (replace(batched(), exact_only=True), RunOptions(batch_size=4), "served exactly only"),
        (batched(), RunOptions(batch_size=17), "--max-shape batch=17"),
        (batched(), RunOptions(batch_size=65), "1 to 64"),
        (batched(), RunOptions(batch_size=-1), "1 to 64"),
        (batched(cuts=()), RunOptions(batch_size=2), "rows depend on each other"),
        (replace(batched(), reference=None), RunOptions(batch_size=2), "never compared"),
    ],
)
def test_a_number_that_cannot_be_had_says_why(
    manifest: Manifest, options: RunOptions, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        batch_size_of(manifest, options)


def run_of(manifest: Manifest, **asked: Any) -> World:
    world = World(manifest).begin("a")
    world.submit(items=1, options=RunOptions(**asked))
    world.run_for(5.0)
    return world


def terms_told(world: World) -> set[BatchTerms | None]:
    assignments = [each.assignment for each in world.instructions(ins.PublishAssignment)]
    return {part.batch for assignment in assignments for part in assignment.partitions}


def test_devices_are_told_how_many_rows_memory_is_planned_for() -> None:
    assert terms_told(run_of(batched())) == {BatchTerms(16, ())}


def test_exact_partitions_and_those_between_other_cuts_compute_each_item_alone() -> None:
    assert terms_told(run_of(batched(), exact=True)) == {None}
    assert terms_told(run_of(batched(cuts=(1, 3)))) == {None}


def test_a_run_is_kept_with_the_number_that_was_found_for_it() -> None:
    world = run_of(batched(), batch_size=BATCH_AUTO)
    (stored,) = world.instructions(ins.StoreRun)
    assert stored.options.batch_size == AUTO_MOST
    assert stored.options.frame_settings.batch == AUTO_MOST


def test_an_exact_run_that_asks_for_several_at_once_is_rejected() -> None:
    world = run_of(batched(), exact=True, batch_size=4)
    (rejected,) = [each for each in world.told if isinstance(each, req.Rejected)]
    assert "computes each item alone" in rejected.reason


@pytest.mark.parametrize(("size", "most"), [(1, 4), (3, 12)])
def test_as_many_more_items_are_under_way_as_may_be_computed_together(size: int, most: int) -> None:
    world = World(batched()).begin("a")
    world.submit(items=40, options=RunOptions(batch_size=size))
    seen = 0
    while not world.finished(items=40):
        world.run_for(0.005)
        seen = max(seen, *(len(plan.in_flight) for plan in world.machine.state.plans.values()), 0)
    assert seen == most


def test_beside_another_client_a_batch_gives_no_more_of_the_devices() -> None:
    world = World(batched()).begin("a", compute_s=0.05)
    world.submit("many", items=60, options=RunOptions(batch_size=8), party="clients/ann/s1")
    world.submit("few", items=60, party="clients/bob/s1")
    world.run_for(3.0)
    in_flight = Counter[str]()
    for _ in range(200):
        world.run_for(0.005)
        for plan in world.machine.state.plans.values():
            each = Counter(item.run for item in plan.in_flight.values())
            in_flight |= each
    assert in_flight["few"] == in_flight["many"] == 4


def test_of_one_client_a_run_of_lone_items_goes_on_beside_one_of_batches() -> None:
    world = World(batched()).begin("a", compute_s=0.05)
    world.submit("many", items=200, options=RunOptions(batch_size=8))
    world.run_for(2.0)
    world.submit("few", items=8)
    world.run_for(30.0, lambda: world.finished("few", items=8))
    assert world.finished("few", items=8)
    assert not world.finished("many", items=200)
