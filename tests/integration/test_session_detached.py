"""Runs that outlive their session, with everything real: submitted here, collected there."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import crowdpipe
from crowdpipe.errors import DiskFull, InvalidInput, UnknownRun, UserError
from tests.support.broker import fresh_name
from tests.support.served import MODEL, Feeds, Served, feeds_of, served
from wire.errors import CrowdpipeError

COUNT = 40


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


def open_session(fleet: Served) -> crowdpipe.Session:
    return crowdpipe.Session(MODEL, fleet.broker, exact=True, timeout_s=60)


def submit(fleet: Served, inputs: list[Feeds]) -> str:
    with open_session(fleet) as session:
        return session.submit(iter(inputs))


def test_a_run_is_collected_by_another_session_bit_for_bit_and_once(fleet: Served) -> None:
    inputs = feeds_of(COUNT)
    run = submit(fleet, inputs)
    with open_session(fleet) as session:
        with session.collect(run) as results:
            assert len(results) == COUNT
            found = dict(results)
        with pytest.raises(UnknownRun), session.collect(run):
            pass
    assert sorted(found) == list(range(COUNT))
    for item, feeds in enumerate(inputs):
        outputs = found[item]
        assert not isinstance(outputs, CrowdpipeError)
        np.testing.assert_array_equal(outputs[0], fleet.wanted(feeds)[0])
    assert run not in [each.progress.run for each in crowdpipe.runs(fleet.broker)]


def collect_and_fail(session: crowdpipe.Session, run: str) -> None:
    with session.collect(run) as results:
        next(iter(results))
        raise DiskFull("they cannot be written")


def test_what_was_not_kept_is_for_the_next(fleet: Served) -> None:
    run = submit(fleet, feeds_of(COUNT))
    with open_session(fleet) as session:
        with pytest.raises(DiskFull):
            collect_and_fail(session, run)
        with session.collect(run) as results:
            kept = {item for item, _ in zip(range(10), results, strict=False)}
        with session.collect(run) as results:
            rest = {item for item, _ in results}
    assert len(kept) == 10
    assert len(rest) == COUNT - 10


def test_who_collects_at_the_same_time_waits_and_is_told_for_what(fleet: Served) -> None:
    run, waits = submit(fleet, feeds_of(4)), []
    told = threading.Event()

    def note(reason: str) -> None:
        waits.append(reason)
        told.set()

    found: list[int] = []

    def collect() -> None:
        with (
            crowdpipe.Session(MODEL, fleet.broker, timeout_s=60, on_wait=note) as second,
            second.collect(run) as results,
        ):
            found.extend(item for item, _ in results)

    waiting = threading.Thread(target=collect)
    with open_session(fleet) as first:
        with first.collect(run):
            waiting.start()
            assert told.wait(20)
        waiting.join(30)
    assert sorted(found) == [0, 1, 2, 3]
    assert "another client reads" in waits[0]


def test_another_user_finds_none_of_it(fleet: Served) -> None:
    run = submit(fleet, feeds_of(2))
    bob = str(fleet.system.broker.login(fresh_name("bob"), "client"))
    assert crowdpipe.runs(bob) == []
    with pytest.raises(UnknownRun):
        crowdpipe.cancel(run, bob)
    with (
        crowdpipe.Session(MODEL, bob, timeout_s=30) as session,
        pytest.raises(UnknownRun),
        session.collect(run),
    ):
        pass
    (listed,) = [each for each in crowdpipe.runs(fleet.broker) if each.progress.run == run]
    assert not listed.progress.attended


def test_a_wrong_input_leaves_nothing(fleet: Served) -> None:
    before = {each.progress.run for each in crowdpipe.runs(fleet.broker)}
    with open_session(fleet) as session, pytest.raises(InvalidInput):
        session.submit([*feeds_of(3), {"x": np.zeros((2, 3), np.float32)}])
    after = {each.progress.run: each.progress.status for each in crowdpipe.runs(fleet.broker)}
    assert {after[run] for run in after.keys() - before} <= {"cancelled"}


def test_a_collection_is_used_in_a_with(fleet: Served) -> None:
    with open_session(fleet) as session, pytest.raises(UserError):
        list(session.collect("r"))
