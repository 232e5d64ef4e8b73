"""What it costs, in calls, that a model comes or goes, or that a device is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from orchestrator.machine.records import events as ev
from tests.support.event_crowd import (
    CLIENT,
    NUMBERS,
    Crowd,
    Kind,
    assert_alike,
)
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.lifecycle import InvariantBroken
from wire.manifest import Manifest
from wire.messages import events as dev
from wire.messages import requests as req

FAST = 1e12  # multiply-adds a second


def idle_device_forgotten(crowd: Crowd) -> Iterator[ev.Event]:
    """It ran something of a model that others serve now."""
    _, part = crowd.placed()
    for index in NUMBERS():
        name = f"gone{index}"
        crowd.meet(name)
        seconds = tuple(0.01 for _ in range(part.first, part.last + 1))
        crowd.tell(crowd.batch(name, dev.Profiled(part, seconds)))
        yield ev.ForgetAsked(name)


def serving_device_forgotten(crowd: Crowd) -> Iterator[ev.Event]:
    """Its item goes on with another that serves nothing yet."""
    for model in served(crowd, "moves"):
        crowd.meet("spare", cost_per_s=FAST)
        yield ev.ForgetAsked("own")
        assert crowd.machine.state.plans[model.digest, False].devices() == ["spare"]
        crowd.tell(ev.ForgetAsked("spare"))


def unknown_device_forgotten(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (ev.ForgetAsked(f"never{index}") for index in NUMBERS())


def model_added(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        yield ev.ModelAdded(tiny_manifest(f"added{index}", weights=[10 * MB] * 3))


def model_told_again(crowd: Crowd) -> Iterator[ev.Event]:
    crowd.add("again")
    while True:
        yield ev.ModelAdded(tiny_manifest("again", weights=[10 * MB] * 3))


def unused_model_removed(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        yield ev.ModelRemoved(crowd.add(f"unused{index}").name)


def model_in_use_removed(crowd: Crowd) -> Iterator[ev.Event]:
    """Each of its runs ends, so it costs in proportion to these: here there is one."""
    for model in served(crowd, "used"):
        yield ev.ModelRemoved(model.name)


def served_model_removed(crowd: Crowd) -> Iterator[ev.Event]:
    """Nobody uses it any more, and its device has yet to evict it."""
    for model in served(crowd, "served"):
        (run,) = crowd.machine.state.runs.of_model(model.digest)
        crowd.tell(ev.RequestArrived(CLIENT, req.CancelRun(run.run)))
        crowd.tell(ev.OutcomeStored(run.run, ev.Outcome(0, "run_cancelled", "")))
        yield ev.ModelRemoved(model.name)


def served(crowd: Crowd, name: str) -> Iterator[Manifest]:
    """Models with a run, each served by a device of its own: an assignment is written out whole, so
    what changes one costs in proportion to what its device serves."""
    for index in NUMBERS():
        crowd.tell(ev.ForgetAsked("own"))
        crowd.meet("own", cost_per_s=FAST)
        model = crowd.add(f"{name}{index}")
        crowd.begin(f"{name}{index}", model)
        crowd.store(f"{name}{index}", 0, model)
        assert crowd.machine.state.plans[model.digest, False].devices() == ["own"]
        yield model


KINDS: tuple[Kind, ...] = (
    idle_device_forgotten,
    unknown_device_forgotten,
    model_added,
    model_told_again,
    unused_model_removed,
    served_model_removed,
    model_in_use_removed,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_comes_or_goes_costs_what_it_touches(crowds: tuple[Crowd, Crowd], kind: Kind) -> None:
    assert_alike(kind, crowds)


def test_what_a_forgotten_device_served_moves_at_the_cost_of_what_it_was(
    ranked: tuple[Crowd, Crowd],
) -> None:
    assert_alike(serving_device_forgotten, ranked)


def test_a_measurement_that_would_outlive_its_device_is_found() -> None:
    crowd = Crowd()
    device, part = crowd.placed()
    crowd.tell(crowd.batch(device, dev.Profiled(part, (0.01,) * (part.last - part.first + 1))))
    crowd.machine.validate()
    crowd.machine.state.estimates._models_of.clear()
    with pytest.raises(InvariantBroken, match="would not be found with its device"):
        crowd.machine.validate()


def test_a_digest_goes_with_the_last_model_that_has_it() -> None:
    crowd = Crowd()
    model = crowd.add("first")
    crowd.tell(ev.ModelAdded(replace(model, name="second")))
    crowd.tell(ev.ModelRemoved("first"))
    assert model.digest in crowd.machine.state.manifests
    crowd.tell(ev.ModelRemoved("second"))
    assert model.digest not in crowd.machine.state.manifests
    crowd.machine.validate()
