"""The spool as the courier sees it: what it keeps, measures and lets go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edge_agent.adapters.store.spool import Spool, SpoolFull
from edge_agent.shell.spooled_frames import SpooledFrames
from tests.support.courier_side import Side, exchange, frame, name, parts_in
from wire.errors import CrowdpipeError
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


class _Listener:
    def __init__(self) -> None:
        self.said: list[tuple[str, object]] = []

    def frame_arrived(self, sender: str, header: object) -> None:
        self.said.append(("arrived", header))

    def frame_lost(self, sender: str, activation: object, error: CrowdpipeError) -> None:
        self.said.append(("lost", error.kind))


def test_a_frame_that_cannot_be_written_is_lost_aloud_and_the_copy_before_it_stays(tmp_path: Path):
    room = 2 * len(frame(0, 50)) + len(frame(1, 90))
    spool = Spool(tmp_path / "spool", BOUND, memory_nbytes=room)
    frames, listener = SpooledFrames(spool), _Listener()
    spool.put(name(), "output", frame(0, 50))
    frames.loop_back(name(), "us", listener)  # type: ignore[arg-type] # what is called of it
    spool.put(name(1), "output", frame(1, 90))
    kept = spool.nbytes
    shutil.rmtree(tmp_path / "spool")
    frames.loop_back(name(1), "us", listener)  # type: ignore[arg-type]
    with pytest.raises(SpoolFull, match="make room"):
        frames.keep("us", peek(frame(0, 5000)), frame(0, 5000))
    assert [what for what, _ in listener.said] == ["arrived", "lost"]
    assert listener.said[1] == ("lost", "spool_full")
    assert spool.get(name(), "input", "us") == frame(0, 50)
    assert spool.nbytes == kept


def test_a_frame_whose_file_is_gone_is_missing(tmp_path: Path):
    spool = Spool(tmp_path / "spool", BOUND, memory_nbytes=0)
    spool.put(name(), "output", frame(0, 500))
    shutil.rmtree(tmp_path / "spool")
    assert SpooledFrames(spool).output(name()).load() is None
    spool.forget(name(), "output")
    assert spool.nbytes == 0
