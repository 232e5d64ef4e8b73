"""A thread without which its program cannot go on: if it ends by a fault, the program is told why.

An ended thread is silent: whoever waits for its answers waits for good. What may fail in what it
does is the affair of what it does; this is for what nobody thought of.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from wire.errors import CrowdpipeError

_log = logging.getLogger("crowdpipe")


class VitalThread(threading.Thread):
    """A daemon that does `work`. `died` is called in it, with the reason, if that raises."""

    def __init__(
        self, name: str, work: Callable[[], None], died: Callable[[CrowdpipeError], None]
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._work, self._died = work, died

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            _log.exception("the thread %s failed", self.name)
            self._died(CrowdpipeError(f"its thread '{self.name}' failed: {error!r}"))
