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
from crowdpipe.watching.login import WATCHER, login_of
from crowdpipe.watching.watcher import Watcher
from wire.broker_url import BrokerUrl
from wire.errors import InvalidName, OperatorError, TimedOut, UserError
from wire.ids import check_name
from wire.messages.state import Status
from wire.unwritable import writing_in

FOLDER = "forget"
AT_ONCE = 64
TAKEN_LIMIT_S = 15.0
POLL_S = 0.1


def ask_to_forget(home: Path, device: str) -> None:
    """Return once it is forgotten. Raises `InvalidName`, `OperatorError` if nothing is served from
    `home`, or `TimedOut`."""
    check_name(device, "device name")
    _broker_of(home)
    request = make_private_folder(home / FOLDER) / device
    with writing_in(request.parent):
        request.touch()
    deadline = time.monotonic() + TAKEN_LIMIT_S
    while request.exists():
        if time.monotonic() > deadline:
            request.unlink(missing_ok=True)
            raise TimedOut(f"`crowdpipe up` did not answer within {TAKEN_LIMIT_S:g} s; try again")
        time.sleep(POLL_S)


def said_status(home: Path, device: str) -> Status | None:
    """What a device retained of itself last, which proves nothing; None if that was no status.

    Raises `UserError` if nothing is retained of such a device, and what `ask_to_forget` raises, or
    what keeps a watcher from the broker."""
    check_name(device, "device name")
    with Watcher(login_of(home, _broker_of(home), WATCHER)) as watcher:
        record = watcher.look(lambda seen: seen.devices.get(device))
    if record is None:
        raise UserError(f"no device {device!r} is known; `crowdpipe devices` lists those that are")
    return record.state.status if record.state is not None else None


def _broker_of(home: Path) -> BrokerUrl:
    record = read_up(home)
    if record is None:
        raise OperatorError(f"nothing is served from {home}: start `crowdpipe up` first")
    return record.url


def take_requests(home: Path, forget: Callable[[str], None]) -> None:
    """Have each that was asked for forgotten."""
    folder = home / FOLDER
    if not folder.is_dir():
        return
    for request in list(islice(folder.iterdir(), AT_ONCE)):
        with contextlib.suppress(InvalidName):  # not from us
            forget(check_name(request.name, "device name"))
        request.unlink(missing_ok=True)
