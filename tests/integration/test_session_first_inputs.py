"""The first inputs are attached to `submit`, over a real broker and a real journal on disk."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pytest

import crowdpipe
from tests.support import orchestrated
from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import Person, System, whole_model
from wire.ids import mint
from wire.manifest import Manifest
from wire.messages.requests import Accepted, InputsStored, Rejected, Submit

system = orchestrated.system
X = np.random.default_rng(4).normal(size=(2, WIDTH)).astype(np.float32)
RUNS = 5


@pytest.fixture
def manifest(system: System) -> Manifest:
    manifest = system.add(mlp(4), "mlp", segments=4, max_shape={"batch": 4})
    system.agent()
    system.start()
    return manifest


@pytest.fixture
def person(system: System, manifest: Manifest) -> Iterator[Person]:
    with Person(system.broker) as person:
        yield person


def records(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    told = [each.getMessage() for each in caplog.records]
    return [each for each in told if each.startswith(f"{what}(")]


def left(system: System) -> tuple[int, int]:
    """Bytes of frames in memory, and runs in the journal."""
    assert system.orchestrator is not None
    held_nbytes = system.orchestrator._inbound.frames.held_nbytes
    return held_nbytes, len(system.orchestrator._journal.replay())


def test_a_lone_input_is_stored_in_one_commit_with_its_run(
    system: System, manifest: Manifest, caplog: pytest.LogCaptureFixture
):
    wanted = whole_model(mlp(4)).run(["y"], {"x": X})[0]
    with crowdpipe.Session("mlp", str(system.broker.client), exact=True, timeout_s=60) as session:
        session.run(None, {"x": X})
        caplog.set_level(logging.DEBUG, "crowdpipe.orchestrator")
        for _ in range(RUNS):
            np.testing.assert_array_equal(session.run(None, {"x": X})[0], wanted)
        attached = [each for each in records(caplog, "StoreRun") if "inputs=(0,)" in each]
        assert len(attached) == RUNS
        assert not records(caplog, "StoreInput")
        list(session.run_many([{"x": X}] * 30))
        assert "inputs=(0," in records(caplog, "StoreRun")[-1]


def test_what_came_along_is_answered_once_and_computed(person: Person, manifest: Manifest):
    run = mint()
    person.ask(Submit(run, "mlp", count=1, attached=1))
    person.send(manifest, run, 0, x=X)
    person.finish(run, 1)
    accepted: Accepted = person.answer(Accepted, run)
    assert accepted.stored == ((0, 0),)
    assert person.answer(InputsStored, run) is None
    np.testing.assert_allclose(
        person.results[0]["y"], whole_model(mlp(4)).run(["y"], {"x": X})[0], atol=1e-5
    )


def test_of_a_refused_run_nothing_is_left(system: System, person: Person, manifest: Manifest):
    run = mint()
    person.ask(Submit(run, "nowhere", count=2, attached=2))
    for item in range(2):
        person.send(manifest, run, item, x=X)
    said = person.until(
        lambda: [each for each in person.said if isinstance(each, Rejected)][2:], "three answers"
    )
    assert said[-1].run == run
    first = next(each for each in person.said if isinstance(each, Rejected))
    assert (first.kind, first.doubtful) == ("unknown_model", False)
    assert left(system) == (0, 0)


def test_an_input_before_its_submit_is_sent_again(
    system: System, person: Person, manifest: Manifest
):
    run = mint()
    person.send(manifest, run, 0, x=X)
    early = person.until(lambda: [each for each in person.said if isinstance(each, Rejected)], "")
    assert early[0].doubtful
    assert left(system) == (0, 0)
    person.said.clear()
    person.submit("mlp", 1, run=run)
    person.send(manifest, run, 0, x=X)
    person.finish(run, 1)
    assert sorted(person.results) == [0]
