"""Where commands write: data to stdout, everything for the eye to stderr.

With `--json`, stdout holds one JSON value and nothing else, so that it can be piped on.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

from wire.record import to_plain

WIDTH_WITHOUT_TERMINAL = 150  # tables that go to a file are not squeezed into 80 columns


def out() -> Console:
    return _console(stderr=False)


def notes() -> Console:
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else WIDTH_WITHOUT_TERMINAL
    # No markup: `[batch, 3]` is a shape here, not a colour.
    return Console(stderr=stderr, width=width, highlight=False, markup=False)


def print_json(value: Any) -> None:
    """`value` (records, lists, plain values) as JSON on stdout."""
    print(json.dumps(to_plain(value), ensure_ascii=False, indent=2))


def say(text: str) -> None:
    """A sentence for whoever looks on, on stderr."""
    print(text, file=sys.stderr, flush=True)
