"""Devices that a person asks `crowdpipe up` to forget: a file for each in the home, taken away once
it is done. Whoever may write there may do that."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from broker_config.private_file import make_private_folder
from crowdpipe.home import read_up
from wire.errors import InvalidName, OperatorError, TimedOut
from wire.ids import check_name
from wire.unwritable import writing_in

FOLDER = "forget"
AT_ONCE = 64
TAKEN_LIMIT_S = 15.0
POLL_S = 0.1


def ask_to_forget(home: Path, device: str) -> None:
    """Return once it is forgotten. Raises `InvalidName`, `OperatorError` if nothing is served from
    `home`, or `TimedOut`."""
    check_name(device, "device name")
    if read_up(home) is None:
        raise OperatorError(f"nothing is served from {home}: start `crowdpipe up` first")
    request = make_private_folder(home / FOLDER) / device
    with writing_in(request.parent):
        request.touch()
    deadline = time.monotonic() + TAKEN_LIMIT_S
    while request.exists():
        if time.monotonic() > deadline:
            request.unlink(missing_ok=True)
            raise TimedOut(f"`crowdpipe up` did not answer within {TAKEN_LIMIT_S:g} s; try again")
        time.sleep(POLL_S)


def take_requests(home: Path, forget: Callable[[str], None]) -> None:
    """Have each that was asked for forgotten."""
    folder = home / FOLDER
    if not folder.is_dir():
        return
    for request in list(islice(folder.iterdir(), AT_ONCE)):
        with contextlib.suppress(InvalidName):  # not from us
            forget(check_name(request.name, "device name"))
        request.unlink(missing_ok=True)
