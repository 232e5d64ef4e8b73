"""Whether another agent on this device has a name, as far as `/proc` tells.

Processes of other users, and of other apps on Android, may not be seen; then neither is it.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

MOST_PROCESSES = 4096
MOST_NBYTES = 64 << 10
PROGRAM, MODULE = b"crowdpipe-agent", b"edge_agent"
ASKS = b"doctor"
ADDRESSES = (b"mqtt://", b"mqtts://")
SETTINGS = b"CROWDPIPE_AGENT_"


def agent_may_be_called(name: str, proc: Path = Path("/proc")) -> bool:
    """Also if one runs whose name cannot be told, since that stands in a file."""
    mine = str(os.getpid())
    folders = sorted(proc.glob("[0-9]*"))[:MOST_PROCESSES]
    return any(_may_be(folder, name) for folder in folders if folder.name != mine)


def _may_be(process: Path, name: str) -> bool:
    words = _entries(process / "cmdline")
    if not _serves(words):
        return False
    variables = [entry for entry in _entries(process / "environ") if entry.startswith(SETTINGS)]
    told = words if _has_address(words) else [*words, *variables]
    return not _has_address(told) or _tells(told, name.encode())


def _serves(words: list[bytes]) -> bool:
    """`crowdpipe-agent …`, by itself or as a script of Python's, or `python -m edge_agent …`."""
    by_script = any(word.rpartition(b"/")[2] == PROGRAM for word in words[:2])
    by_module = (b"-m", MODULE) in itertools.pairwise(words)
    return (by_script or by_module) and ASKS not in words


def _has_address(entries: list[bytes]) -> bool:
    return any(address in entry for entry in entries for address in ADDRESSES)


def _tells(entries: list[bytes], name: bytes) -> bool:
    users = (b"//%s:" % name, b"//%s@" % name)
    names = (b"--name=%s" % name, b"%sNAME=%s" % (SETTINGS, name))
    by_flag = (b"--name", name) in itertools.pairwise(entries)
    return by_flag or any(
        entry in names or any(user in entry for user in users) for entry in entries
    )


def _entries(file: Path) -> list[bytes]:
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_NBYTES).split(b"\0")
    except OSError:
        return []
