"""The spool as the courier sees it: what it keeps, measures and lets go."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.adapters.store.spool import Spool, SpoolFull
from edge_agent.shell.spooled_frames import SpooledFrames
from tests.support.courier_side import Side, exchange, frame, name, parts_in
from wire.frames import peek

BOUND = 1 << 20


@pytest.fixture(params=[BOUND, 0], ids=["in memory", "on disk"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", BOUND, memory_nbytes=request.param)


def test_an_output_is_measured_without_being_let_go(spool: Spool):
    output = SpooledFrames(spool).output(name())
    assert (output.measure(), output.load()) == (None, None)
    data = frame(0, 5000, attempt=7)
    spool.put(name(), "output", data)
    assert output.measure() == (len(data), 7)
    assert output.load() == data
    spool.forget(name(), "output")
    assert (output.measure(), output.load()) == (None, None)


@pytest.mark.parametrize("nbytes", [100, 100_000])
def test_an_output_reaches_its_reader(spool: Spool, nbytes: int):
    a, b = Side("a"), Side("b")
    spool.put(name(), "output", frame(0, nbytes))
    a.courier.send("b", name(), SpooledFrames(spool).output(name()))
    exchange(a, b)
    assert b.kept == [frame(0, nbytes)]


def test_an_output_that_was_released_before_its_turn_is_not_sent(spool: Spool):
    a, frames = Side("a"), SpooledFrames(spool)
    for item in range(2):
        spool.put(name(item), "output", frame(item))
        a.courier.send("b", name(item), frames.output(name(item)))
    spool.forget(name(0), "output")
    assert [part.transfer.activation for part in parts_in(a.publish())] == [name(1)]


def test_what_comes_is_kept_as_an_input_within_the_spools_bound(spool: Spool):
    frames, data = SpooledFrames(spool), frame(0, 1000)
    frames.keep("a", peek(data), data)
    assert spool.get(name(), "input", "a") == data
    assert frames.held_nbytes == 0
    large = frame(1, BOUND)
    with pytest.raises(SpoolFull):
        frames.keep("a", peek(large), large)


def test_what_we_need_ourselves_stays_here(spool: Spool):
    us, frames = Side("a"), SpooledFrames(spool)
    spool.put(name(), "output", frame())
    frames.loop_back(name(), "a", us)
    assert [(sender, header.activation) for sender, header in us.arrived] == [("a", name())]
    assert spool.get(name(), "input", "a") == spool.get(name(), "output")


def test_what_has_no_room_to_come_back_is_told_as_lost(spool: Spool):
    us = Side("a")
    spool.put(name(), "output", frame(0, BOUND))
    SpooledFrames(spool).loop_back(name(), "a", us)
    assert us.lost == [("a", name(), "spool_full")]


def test_what_was_released_does_not_come_back(spool: Spool):
    us = Side("a")
    SpooledFrames(spool).loop_back(name(), "a", us)
    assert (us.arrived, us.lost) == ([], [])
