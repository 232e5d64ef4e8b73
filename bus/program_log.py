"""What a program logs, to its standard error: alike in all of them, and bounded.

What peers send is quoted in warnings, and they may send what they like, as often as they like. So
a line is cut where it gets long, and of warnings that say alike of the same sender or topic a few
are written, the rest counted; so are those of one kind about ever other senders. The next of
the kind that is written says how many there were.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

LINE_LENGTH, TRACEBACK_LENGTH = 1_000, 4_000
WINDOW_S = 60.0
EACH, OF_A_KIND = 5, 30  # lines in a window: of one kind about one subject; of one kind
KINDS = 1_024  # that are remembered

FORMAT, TIME = "%(asctime)s %(levelname).1s %(message)s", "%H:%M:%S"


@dataclass(slots=True)
class _Count:
    begun: float
    lines: int = 0
    unsaid: int = 0


class LogLimit(logging.Filter):
    """For a handler. Warnings and worse are counted; every line is cut."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._formatter = logging.Formatter()
        self._counts: OrderedDict[tuple[str, ...], _Count] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        unsaid = 0
        if record.levelno >= logging.WARNING:
            kind = (record.name, str(record.msg)[:LINE_LENGTH])
            for key, most in (((*kind, _subject(record)), EACH), (kind, OF_A_KIND)):
                count = self._counted(key)
                if count.lines > most:
                    count.unsaid += 1
                    return False
                unsaid, count.unsaid = max(unsaid, count.unsaid), 0
        self._shorten(record, unsaid)
        return True

    def _counted(self, key: tuple[str, ...]) -> _Count:
        """This line is one more of these."""
        now = self._clock()
        count = self._counts.pop(key, None) or _Count(now)
        self._counts[key] = count
        if len(self._counts) > KINDS:
            self._counts.popitem(last=False)
        if now >= count.begun + WINDOW_S:
            count.begun, count.lines = now, 0
        count.lines += 1
        return count

    def _shorten(self, record: logging.LogRecord, unsaid: int) -> None:
        text = _cut(record.getMessage(), LINE_LENGTH)
        record.msg = f"{text} (and {unsaid:,} more like this)" if unsaid else text
        record.args = None
        if record.exc_info and record.exc_info[0] is not None:
            told = record.exc_text or self._formatter.formatException(record.exc_info)
            record.exc_text = _cut(told, TRACEBACK_LENGTH)


def _subject(record: logging.LogRecord) -> str:
    """What the line is about: the first thing that it quotes, a topic or a sender as a rule."""
    if isinstance(record.args, tuple) and record.args:
        return str(record.args[0])[:100]
    return ""


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} … ({len(text):,} characters)"


def log_to_stderr(level: str, form: str = FORMAT) -> None:
    """At a program's start, in place of what was set before. `level` is one of `logging`'s."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(form, TIME))
    handler.addFilter(LogLimit())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What httpx logs is told again, in our words, by who uses it.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
