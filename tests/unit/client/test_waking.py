"""Who waits for one run is woken by that run alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.handle import Handle, Result
from crowdpipe.client.line import Line
from wire.broker_url import parse_url
from wire.errors import OperatorError, UserError
from wire.messages.requests import RunOptions

LIMIT_S = 30.0


class Reader:
    """A thread that waits for a run, and counts how often it looks whether it may go on."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.looks = 0
        self.looked = threading.Event()
        self.may_go = False
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()
        assert self.looked.wait(LIMIT_S)

    def _look(self) -> bool:
        self.looks += 1
        self.looked.set()
        return self.may_go

    def _wait(self) -> None:
        try:
            self.handle.wait(self._look)
        except Exception as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


@pytest.fixture
def line() -> Iterator[Line]:
    """Never opened: what it would say to a broker stays in its mailbox."""
    line = Line(parse_url("mqtt://alice:x@127.0.0.1:1"))
    yield line
    line.close(0.0)


def begin(line: Line) -> Handle:
    return line.begin("toy", RunOptions(), None, 4, LIMIT_S)


def test_an_outcome_wakes_the_reader_of_its_run_and_no_other(line: Line):
    one, other = Reader(begin(line)), Reader(begin(line))
    one.looked.clear()
    one.handle.give(0, Result(b"frame"))
    assert one.looked.wait(LIMIT_S)
    assert other.looks == 1
    for reader in (one, other):
        reader.may_go = True
        reader.handle.grant(1)
        reader.join()
    assert other.looks == 2


def test_the_end_of_a_run_wakes_its_reader(line: Line):
    reader = Reader(begin(line))
    reader.handle.end(OperatorError("no device"))
    reader.join()
    assert reader.error is None
    assert str(reader.handle.error) == "no device"


def test_a_session_that_is_closed_ends_whoever_waits_in_another_thread(line: Line):
    readers = [Reader(begin(line)) for _ in range(2)]
    line.close(0.0)
    for reader in readers:
        reader.join()
        assert isinstance(reader.error, UserError)


def test_a_run_or_a_plan_of_a_line_that_failed_is_not_waited_for(line: Line):
    line.ended(OperatorError("the broker let nobody in"))
    handle = begin(line)
    with pytest.raises(OperatorError, match="let nobody in"):
        handle.wait(lambda: False)
    with pytest.raises(OperatorError, match="let nobody in"):
        line.ask(ev.PlanAsked("q", "toy", RunOptions(), LIMIT_S))


def test_a_run_that_is_read_here_is_not_collected_a_second_time(line: Line):
    handle = line.collect("r1", "d" * 64, LIMIT_S)
    with pytest.raises(UserError, match="run r1 is read in this session already"):
        line.collect("r1", "d" * 64, LIMIT_S)
    handle.give(0, Result(b"frame"))
    assert handle.take(0) == (0, Result(b"frame"))


def test_a_run_that_ended_is_collected_again_once_its_reader_has_left_it(line: Line):
    """Until then its reader may keep it all, or acknowledge some."""
    handle = line.collect("r1", "d" * 64, LIMIT_S)
    line._end_run(ins.EndRun("r1", None, ""))
    with pytest.raises(UserError, match="already"):
        line.collect("r1", "d" * 64, LIMIT_S)
    handle.leave(())
    assert not line.collect("r1", "d" * 64, LIMIT_S).ended


def test_of_many_threads_that_collect_one_run_at_once_one_reads_it(line: Line):
    start, won, lost = threading.Barrier(8), [], []

    def collect() -> None:
        start.wait(LIMIT_S)
        try:
            won.append(line.collect("r1", "d" * 64, LIMIT_S))
        except UserError as error:
            lost.append(error)

    threads = [threading.Thread(target=collect) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert (len(won), len(lost)) == (1, 7)


@pytest.mark.parametrize(("window", "told"), [(1, [1] * 16), (16, [4] * 4), (64, [16]), (0, [16])])
def test_taken_outcomes_are_told_before_the_window_is_used_up(
    line: Line, monkeypatch: pytest.MonkeyPatch, window: int, told: list[int]
) -> None:
    said: list[object] = []
    monkeypatch.setattr(line, "tell", said.append)
    handle = Handle(line, "r1", LIMIT_S, window)
    for item in range(16):
        handle.give(item, Result(b"frame"))
        handle.take(item)
    assert said == [ev.OutcomesTaken("r1", count) for count in told]
