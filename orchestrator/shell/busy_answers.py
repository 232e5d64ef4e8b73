"""Requests that are refused before the machine hears of them, because too many wait for it.

The answer is given at once, at most one a second to each party; what comes in between is counted,
and not even read: a refusal costs less than a request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from orchestrator.machine.records.allowances import Allowances
from orchestrator.machine.runs.quotas import busy_answer
from wire.errors import Busy
from wire.messages.requests import REQUEST_NBYTES, Request, Response
from wire.record import decode

TOLD_PER_S = 1.0
AGAIN_S = 2.0  # the main thread is behind: later than a rate alone would ask for

_log = logging.getLogger("crowdpipe.orchestrator")


class BusyAnswers:
    """`respond` tells a party something. Used by one thread."""

    def __init__(self, respond: Callable[[str, Response], None]) -> None:
        self._respond = respond
        self._told = Allowances(TOLD_PER_S, 1.0)
        self.count = 0

    def refuse(self, party: str, payload: bytes, now: float) -> None:
        """Raises `Malformed` if it is no request, and would have been answered."""
        self.count += 1
        if self._told.wait_s(party, now) > 0.0:
            return
        self._told.spend(party, now)
        _log.warning("too many requests of %s wait; %d were refused so far", party, self.count)
        busy = Busy("more requests of this client or its user wait here than may", AGAIN_S)
        answer = busy_answer(decode(Request, payload, REQUEST_NBYTES), busy)
        if answer is not None:
            self._respond(party, answer)
