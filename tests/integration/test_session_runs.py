"""The Python client against real broker, store, orchestrator and agents."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import crowdpipe
from crowdpipe.errors import InvalidInput
from tests.support.models import WIDTH
from tests.support.orchestrated import Person
from tests.support.served import MODEL, Served, feeds_of, served
from wire.messages.state import DeviceState


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(scope="module")
def session(fleet: Served) -> Iterator[crowdpipe.Session]:
    with crowdpipe.Session(MODEL, fleet.broker, exact=True, timeout_s=60) as session:
        yield session


def test_a_session_tells_what_the_model_takes_and_gives(session: crowdpipe.Session) -> None:
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    assert (x.name, x.shape, x.type) == ("x", ["batch", WIDTH], "tensor(float)")
    assert (y.name, y.shape, y.type) == ("y", ["batch", WIDTH], "tensor(float)")


def test_one_run_gives_the_whole_models_bits(fleet: Served, session: crowdpipe.Session) -> None:
    (feeds,) = feeds_of(1)
    outputs = session.run(None, feeds)
    assert len(outputs) == 1
    np.testing.assert_array_equal(outputs[0], fleet.wanted(feeds)[0])


def test_outputs_are_given_as_named(session: crowdpipe.Session) -> None:
    (feeds,) = feeds_of(1)
    first, again = session.run(["y", "y"], feeds)
    np.testing.assert_array_equal(first, again)


def test_many_inputs_give_outputs_in_their_order(fleet: Served, session: crowdpipe.Session) -> None:
    inputs = feeds_of(30)
    outputs = list(session.run_many(inputs))
    assert len(outputs) == len(inputs)
    for feeds, (y,) in zip(inputs, outputs, strict=True):
        np.testing.assert_array_equal(y, fleet.wanted(feeds)[0])


def test_as_completed_gives_every_index_once(fleet: Served, session: crowdpipe.Session) -> None:
    inputs = feeds_of(20, seed=5)
    outputs = dict(session.run_many(iter(inputs), ordered=False))
    assert sorted(outputs) == list(range(20))
    for index, (y,) in outputs.items():
        np.testing.assert_array_equal(y, fleet.wanted(inputs[index])[0])


def test_a_barrier_run_gives_the_same(fleet: Served, session: crowdpipe.Session) -> None:
    inputs = feeds_of(12, seed=6)
    for feeds, (y,) in zip(inputs, session.run_many(inputs, barrier=True), strict=True):
        np.testing.assert_array_equal(y, fleet.wanted(feeds)[0])


def test_a_barrier_run_of_an_iterator_is_counted_first(
    fleet: Served, session: crowdpipe.Session
) -> None:
    inputs = feeds_of(5, seed=7)
    outputs = list(session.run_many(iter(inputs), barrier=True))
    np.testing.assert_array_equal(outputs[4][0], fleet.wanted(inputs[4])[0])


def test_an_endless_iterable_is_drawn_only_as_far_as_needed(session: crowdpipe.Session) -> None:
    drawn = itertools.count()
    inputs = ({**feeds_of(1)[0]} for _ in drawn)
    outputs = session.run_many(inputs)
    for _ in range(10):
        next(outputs)
    outputs.close()
    assert next(drawn) < 600


def test_no_inputs_give_no_outputs(session: crowdpipe.Session) -> None:
    assert list(session.run_many([])) == []
    assert list(session.run_many(iter([]))) == []


def test_leaving_early_cancels_the_run(fleet: Served, session: crowdpipe.Session) -> None:
    outputs = session.run_many(itertools.repeat(feeds_of(1)[0]))
    next(outputs)
    outputs.close()
    (feeds,) = feeds_of(1)
    np.testing.assert_array_equal(session.run(None, feeds)[0], fleet.wanted(feeds)[0])


def test_an_input_that_cannot_be_sent_raises_at_its_turn(session: crowdpipe.Session) -> None:
    good = feeds_of(3)
    bad = {"x": np.zeros((9, WIDTH), np.float32)}
    outputs = session.run_many(iter([*good, bad, *good]))
    for _ in good:
        next(outputs)
    with pytest.raises(InvalidInput, match=r"item 3.*at most 4"):
        next(outputs)


def test_errors_are_given_in_their_place_if_asked(
    fleet: Served, session: crowdpipe.Session
) -> None:
    good = feeds_of(3)
    bad = {"x": np.zeros((9, WIDTH), np.float32)}
    outputs = list(session.run_many([good[0], bad, good[1]], return_errors=True))
    assert isinstance(outputs[1], InvalidInput)
    np.testing.assert_array_equal(outputs[2][0], fleet.wanted(good[1])[0])


def test_an_iterable_that_raises_raises_here(session: crowdpipe.Session) -> None:
    def inputs() -> Iterator[dict[str, np.ndarray]]:
        yield feeds_of(1)[0]
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(session.run_many(inputs()))


def test_inputs_may_depend_on_outputs(fleet: Served, session: crowdpipe.Session) -> None:
    """Whoever gives the next input only after the last output must not wait for each other."""
    (first,) = feeds_of(1)
    feeds = dict(first)
    for _ in range(3):
        (y,) = session.run(None, feeds)
        np.testing.assert_array_equal(y, fleet.wanted(feeds)[0])
        feeds = {"x": y / 8}


def test_several_threads_share_a_session(fleet: Served, session: crowdpipe.Session) -> None:
    inputs = feeds_of(8, seed=9)
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda feeds: session.run(None, feeds)[0], inputs))
    for feeds, y in zip(inputs, outputs, strict=True):
        np.testing.assert_array_equal(y, fleet.wanted(feeds)[0])


def test_lossy_transports_come_close(fleet: Served, session: crowdpipe.Session) -> None:
    inputs = feeds_of(3, seed=11)
    with crowdpipe.Session(MODEL, fleet.broker, timeout_s=60) as fast:
        for transport, most in (("fp16", 1e-2), ("int8", 2e-1)):
            for feeds, (y,) in zip(inputs, fast.run_many(inputs, transport=transport), strict=True):
                np.testing.assert_allclose(y, fleet.wanted(feeds)[0], atol=most)


def test_models_are_listed(fleet: Served) -> None:
    (model,) = crowdpipe.models(fleet.broker)
    assert (model.name, model.segments) == (MODEL, 4)


def test_devices_are_listed_with_what_they_said(fleet: Served, session: crowdpipe.Session) -> None:
    session.run(None, feeds_of(1)[0])
    devices = crowdpipe.devices(fleet.broker)
    assert [device.name for device in devices] == sorted(a.name for a in fleet.system.agents)
    for device in devices:
        assert isinstance(device.state, DeviceState)
        assert device.state.status == "online"


def test_a_plan_tells_who_would_serve_what(fleet: Served) -> None:
    planned = crowdpipe.plan(MODEL, fleet.broker, partitions=2)
    assert planned.partitions[0].first == 0
    assert planned.partitions[-1].last == 3
    assert all(row.reason for row in planned.partitions)


def test_a_closed_session_leaves_no_thread(fleet: Served) -> None:
    before = set(threading.enumerate())
    with crowdpipe.Session(MODEL, fleet.broker) as session:
        session.run(None, feeds_of(1)[0])
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert left == []


def test_results_are_acknowledged(fleet: Served) -> None:
    """What the client has in hand, the orchestrator need not keep."""
    with crowdpipe.Session(MODEL, fleet.broker) as session:
        list(session.run_many(feeds_of(6)))
    with Person(fleet.system.broker) as person:
        person.submit(MODEL, 0)  # what was said before is heard before this is answered
    orchestrator = fleet.system.orchestrator
    assert orchestrator is not None
    runs = orchestrator._machine.state.runs.values()
    assert [run.run for run in runs if run.outcomes] == []
