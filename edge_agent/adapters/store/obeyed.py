"""The highest generation that this agent obeyed of each desk, kept where the next start finds it.

So an order of before that somebody sends again, to an agent that has just started, is known to be
old. Kept by the desks' keys, since a phone may go from one to another and back. What cannot be
written is said and not kept: the agent serves all the same.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from wire.errors import CrowdpipeError
from wire.record import decode, encode

DESKS_LIMIT = 16
NBYTES = 4096

_log = logging.getLogger("crowdpipe.agent")


@dataclass(frozen=True, slots=True)
class ObeyedByDesk:
    """By key, the desk that was obeyed last at the end."""

    generations: dict[str, int]


class Obeyed:
    """Of the desk with `key`. `generation` is 0 if it was never obeyed."""

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        self._known = self._read()
        self.generation = self._known.get(key, 0)

    def remember(self, generation: int) -> None:
        """A lower one than before changes nothing."""
        if generation <= self.generation:
            return
        self.generation = generation
        self._known.pop(self._key, None)
        self._known[self._key] = generation
        while len(self._known) > DESKS_LIMIT:
            del self._known[next(iter(self._known))]
        try:
            self._write(encode(ObeyedByDesk(self._known)))
        except OSError as error:
            _log.warning("cannot note which orders are old: %s", error.strerror)

    def _write(self, data: bytes) -> None:
        """Whole or not at all, and on the disk before the order is obeyed."""
        temporary = self._path.with_name(f"{self._path.name}.new")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)

    def _read(self) -> dict[str, int]:
        try:
            known: ObeyedByDesk = decode(ObeyedByDesk, self._path.read_bytes(), NBYTES)
        except FileNotFoundError:
            return {}
        except (OSError, CrowdpipeError) as error:
            _log.warning("cannot read which orders are old, and begin anew: %s", error)
            return {}
        return dict(known.generations)
