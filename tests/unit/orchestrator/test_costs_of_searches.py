"""What it costs, in calls, to ask for a plan, and what is done about the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from orchestrator.machine.records import events as ev
from tests.support.event_crowd import (
    ABLE,
    CLIENT,
    NUMBERS,
    Crowd,
    Kind,
    assert_alike,
)
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.manifest import Manifest
from wire.messages import requests as req

FAST = 1e12  # multiply-adds a second


def asks(crowd: Crowd, model: Manifest) -> ev.Event:
    return ev.RequestArrived(CLIENT, req.RequestPlan("q", model.name))


def preview_asked(crowd: Crowd) -> Iterator[ev.Event]:
    """A snapshot of the fleet names each device, and is made in one step."""
    for index in NUMBERS():
        yield asks(crowd, crowd.add(f"asked{index}"))


def submit_searched(crowd: Crowd) -> Iterator[ev.Event]:
    """Devices could serve the run, so it goes to disk."""
    for index in NUMBERS():
        yield crowd.asked(crowd.submit(f"hopes{index}", crowd.add(f"hopes{index}")))


def nobody_found(crowd: Crowd) -> Iterator[ev.Event]:
    """No devices could serve the run: it is refused."""
    for index in NUMBERS():
        model = tiny_manifest(f"huge{index}", weights=[3000 * MB])
        crowd.tell(ev.ModelAdded(model))
        found = crowd.asked(crowd.submit(f"huge{index}", model))
        assert found.ranges is None
        yield found


def preview_of_what_stands(crowd: Crowd) -> Iterator[ev.Event]:
    """It is answered at once, with other devices than those of the plan, up to 64."""
    model, state = crowd.add("stands"), crowd.machine.state
    crowd.begin("stands", model)
    crowd.store("stands", 0, model)
    while True:
        assert state.plans[model.digest, False].fleet == state.devices.revision
        yield asks(crowd, model)


def preview_searched(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        yield crowd.asked(asks(crowd, crowd.add(f"preview{index}")))


def ranges_found(crowd: Crowd) -> Iterator[ev.Event]:
    """For the first plan of a model, whose run waits for it."""
    for index in NUMBERS():
        crowd.tell(ev.ForgetAsked("own"))
        crowd.meet("own", cost_per_s=FAST)
        model = crowd.add(f"first{index}")
        crowd.begin(f"first{index}", model)
        found = crowd.asked(crowd.input(f"first{index}", 0, model))
        crowd.tell(ev.InputStored(f"first{index}", 0))
        yield found
        assert crowd.machine.state.plans[model.digest, False].devices() == ["own"]


def better_ranges_looked_for(crowd: Crowd) -> Iterator[ev.Event]:
    """The fleet changed since the plan was made, and another run begins."""
    crowd.tell(ev.ForgetAsked("own"))
    crowd.meet("own", cost_per_s=FAST)
    model = crowd.add("compared")
    for index in NUMBERS():
        crowd.begin(f"compared{index}", model)
        crowd.meet(f"newcomer{index}")
        found = crowd.asked(crowd.input(f"compared{index}", 0, model))
        crowd.tell(ev.InputStored(f"compared{index}", 0))
        yield found
        crowd.end(f"compared{index}", 0, model)


def no_other_ranges_found(crowd: Crowd) -> Iterator[ev.Event]:
    """For a model under way that one device alone could have, when it goes."""
    for index in NUMBERS():
        crowd.meet("big", able=replace(ABLE, memory_budget_nbytes=1000 * MB))
        model = tiny_manifest(f"large{index}", weights=[40 * MB] * 3)
        crowd.tell(ev.ModelAdded(model))
        crowd.begin(f"large{index}", model)
        crowd.store(f"large{index}", 0, model)
        found = crowd.asked(ev.ForgetAsked("big"))
        assert found.ranges is None
        yield found
        crowd.tell(ev.ModelRemoved(model.name))


KINDS: tuple[Kind, ...] = (preview_asked, submit_searched, nobody_found)
RANKING: tuple[Kind, ...] = (
    preview_of_what_stands,
    preview_searched,
    ranges_found,
    better_ranges_looked_for,
    no_other_ranges_found,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_search_is_asked_for_at_the_cost_of_one_question(
    crowds: tuple[Crowd, Crowd], kind: Kind
) -> None:
    assert_alike(kind, crowds)


@pytest.mark.parametrize("kind", RANKING, ids=lambda kind: kind.__name__)
def test_an_answer_costs_the_ranking_of_few_devices(
    ranked: tuple[Crowd, Crowd], kind: Kind
) -> None:
    assert_alike(kind, ranked)
