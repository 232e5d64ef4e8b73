"""A log that no neighbour can flood."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest

from bus.program_log import EACH, LINE_LENGTH, OF_A_KIND, TRACEBACK_LENGTH, WINDOW_S, LogLimit


class Log:
    """A logger that writes to memory, through the limit, at a time that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.addFilter(LogLimit(lambda: self.now))
        self.logger = logging.Logger("crowdpipe.test", logging.INFO)
        self.logger.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    found = Log()
    yield found
    found.handler.close()


def test_a_long_line_is_cut_and_says_how_long_it_was(log: Log) -> None:
    log.logger.warning("refused a message on %s: %s", "topic", "x" * (4 << 20))
    assert len(log.lines[0]) < LINE_LENGTH + 50
    assert "characters" in log.lines[0]


def test_of_what_says_alike_of_one_sender_a_few_lines_are_written_and_the_rest_counted(log: Log):
    for number in range(1_000):
        log.logger.warning("refused a message on %s: %s", "topic", number)
    assert len(log.lines) == EACH
    log.now += WINDOW_S
    log.logger.warning("refused a message on %s: %s", "topic", "again")
    assert log.lines[-1] == f"refused a message on topic: again (and {1_000 - EACH} more like this)"


def test_others_are_heard_meanwhile_but_not_ever_more_of_them(log: Log) -> None:
    for number in range(1_000):
        log.logger.warning("refused a message on %s: %s", f"topic{number}", "why")
    log.logger.warning("lost %s", "something else")
    assert len(log.lines) == OF_A_KIND + 1


def test_what_is_no_warning_is_all_written(log: Log) -> None:
    for _ in range(100):
        log.logger.info("run %s", "r1")
    assert len(log.lines) == 100


def test_a_traceback_is_cut(log: Log) -> None:
    try:
        raise ValueError("x" * (1 << 20))
    except ValueError:
        log.logger.exception("failed")
    assert len(log.stream.getvalue()) < TRACEBACK_LENGTH + 200


def test_what_it_remembers_is_bounded(log: Log) -> None:
    for number in range(5_000):
        log.logger.warning("of kind %d" % number)  # noqa: UP031 (each is another text)
    limit = log.handler.filters[0]
    assert isinstance(limit, LogLimit)
    assert len(limit._counts) <= 1_024
    assert sys.getsizeof(log.stream.getvalue()) < 1 << 20
