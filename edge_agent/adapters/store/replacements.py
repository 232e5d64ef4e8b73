"""How often in a row another agent of this name ended ours, kept where the next start finds it.

Two agents of one name that something starts again whenever they end would end each other for ever.
Each start after such an end waits, twice as long as the one before; so one of them serves
meanwhile.
"""

from __future__ import annotations

import logging
from pathlib import Path

FIRST_S, LONGEST_S = 5.0, 600.0
STEADY_S = 2 * LONGEST_S  # connected for so long, nobody else has the name
COUNT_LIMIT = 20

_log = logging.getLogger("crowdpipe.agent")


class Replacements:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = self._read()

    @property
    def pause_s(self) -> float:
        """Before the next try; 0 unless another took our name."""
        return min(LONGEST_S, FIRST_S * 2.0 ** (self.count - 1)) if self.count else 0.0

    def add(self) -> None:
        self.count = min(self.count + 1, COUNT_LIMIT)
        try:
            self._path.write_text(str(self.count), encoding="ascii")
        except OSError as error:
            _log.warning("cannot note that another agent has our name: %s", error.strerror)

    def clear(self) -> None:
        if self.count:
            self.count = 0
            self._path.unlink(missing_ok=True)

    def _read(self) -> int:
        try:
            text = self._path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return 0
        return min(int(text), COUNT_LIMIT) if text.isdecimal() and len(text) < 10 else 0
