"""Frames that wait: in memory, then on disk, never beyond the bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.adapters.store.spool import FrameMissing, Spool, SpoolFull
from edge_agent.machine.records.events import NO_ROOM
from wire.frame_head import FrameSettings
from wire.frames import Frame, encode_frame
from wire.ids import ActivationId

A, B, C = (ActivationId("run", item, 1) for item in range(3))


def spool(tmp_path: Path, total: int = 100, memory: int = 10) -> Spool:
    return Spool(tmp_path / "spool", total_nbytes=total, memory_nbytes=memory)


def files(tmp_path: Path) -> int:
    return len(list((tmp_path / "spool").iterdir()))


def test_frames_beyond_the_memory_bound_lie_on_disk_and_read_alike(tmp_path: Path):
    held = spool(tmp_path)
    held.put(A, "input", b"a" * 8)
    held.put(B, "input", b"b" * 8)
    assert files(tmp_path) == 1
    assert (held.get(A, "input"), held.get(B, "input")) == (b"a" * 8, b"b" * 8)
    assert held.nbytes == 16


def test_input_and_output_of_one_name_are_two_frames(tmp_path: Path):
    held = spool(tmp_path)
    held.put(A, "input", b"in")
    held.put(A, "output", b"out")
    held.forget(A, "input")
    assert held.get(A, "output") == b"out"
    with pytest.raises(FrameMissing):
        held.get(A, "input")


def test_forgetting_gives_all_room_back(tmp_path: Path):
    held = spool(tmp_path)
    for name in (A, B, C):
        held.put(name, "output", b"x" * 9)
    for name in (A, B, C, C):
        held.forget(name, "output")
    assert (held.nbytes, files(tmp_path)) == (0, 0)
    held.put(A, "output", b"x" * 9)
    assert files(tmp_path) == 0, "memory is free again"


def test_the_attempt_of_a_frame_on_disk_is_known_without_reading_it(tmp_path: Path):
    held = spool(tmp_path)
    frame = encode_frame(Frame("a" * 64, A, 3, FrameSettings(), ()))
    held.put(A, "output", frame)
    (file,) = (tmp_path / "spool").iterdir()
    file.unlink()
    assert held.measure(A, "output") == (len(frame), 3)
    assert held.measure(B, "output") is None


def test_a_frame_beyond_the_bound_is_refused_and_the_others_stay(tmp_path: Path):
    held = spool(tmp_path, total=20)
    held.put(A, "input", b"a" * 15)
    with pytest.raises(SpoolFull, match="--hold"):
        held.put(B, "input", b"b" * 6)
    assert held.get(A, "input") == b"a" * 15
    assert held.nbytes == 15


def test_an_output_finds_room_although_inputs_came_meanwhile(tmp_path: Path):
    held = spool(tmp_path, total=20)
    held.put(A, "input", b"a" * 15)
    held.put(A, "output", b"b" * 15)
    assert held.nbytes == 30
    with pytest.raises(SpoolFull):
        held.put(B, "input", b"c")


def test_the_machine_knows_a_full_spool_by_its_kind():
    assert SpoolFull.kind == NO_ROOM


def test_a_repeat_takes_the_place_of_its_first_copy(tmp_path: Path):
    held = spool(tmp_path, total=20)
    held.put(A, "input", b"a" * 15)
    held.put(A, "input", b"A" * 20)
    assert held.get(A, "input") == b"A" * 20
    assert held.nbytes == 20
    assert files(tmp_path) == 1


def test_each_senders_copy_lies_by_itself(tmp_path: Path):
    held = spool(tmp_path, total=40)
    held.put(A, "input", b"a" * 15, "first")
    held.put(A, "input", b"b" * 5, "second")
    held.put(A, "output", b"c" * 7)
    assert (held.get(A, "input", "first"), held.nbytes) == (b"a" * 15, 27)
    held.forget(A, "input", "second")
    assert (held.get(A, "input", "first"), held.nbytes) == (b"a" * 15, 22)
    with pytest.raises(FrameMissing):
        held.get(A, "input", "second")
    held.put(A, "input", b"b" * 5, "second")
    held.forget(A, "input")
    assert (held.nbytes, held.get(A, "output")) == (7, b"c" * 7)


def test_what_is_forgotten_is_what_was_known_of(tmp_path: Path):
    held = spool(tmp_path, total=40)
    held.put(A, "input", b"a" * 5, "first")
    known = held.inputs
    held.put(A, "input", b"b" * 5, "first")
    held.forget(A, "input", "first", known)
    assert held.get(A, "input", "first") == b"b" * 5
    held.forget(A, "input", None, known)
    assert held.get(A, "input", "first") == b"b" * 5
    held.forget(A, "input", "first", held.inputs)
    assert held.nbytes == 0


def test_a_new_process_starts_with_an_empty_spool(tmp_path: Path):
    spool(tmp_path).put(A, "input", b"a" * 50)
    with pytest.raises(FrameMissing):
        spool(tmp_path).get(A, "input")
    assert files(tmp_path) == 0
