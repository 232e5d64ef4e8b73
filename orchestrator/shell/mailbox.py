"""What happened, waiting for the machine: one queue into the main thread.

Each kind has a bound of its own, so that a flood of one neither drops nor holds up another. Of what
clients send, requests and inputs, so many of one party, of one user and of all may wait; beyond
that it is not taken, and whoever put it says so. What comes from devices, the broker and the store
waits at the bound with whoever puts it, and that is said if it lasts: the main thread would be
stuck. The journal's answers never wait, since the main thread may wait for the journal; they are
no more than what was asked of it. Of several that put at once each may find the last place: then
there are as many more as there are threads.

There is one order for all: an input must not overtake the request that it belongs to. What comes
behind a flood therefore waits for no more than `REQUESTS.of_party` requests of that client.
"""

from __future__ import annotations

import logging
import queue
import threading

from orchestrator.machine.records.events import (
    Event,
    FrameLost,
    InputArrived,
    RequestArrived,
)
from orchestrator.shell.waiting import Waiting, WaitingLimits
from wire.errors import TimedOut
from wire.topics import is_client

BOUND = 10_000
REQUESTS = WaitingLimits(of_party=128, of_user=256, of_all=2048)
# A client may have 8 inputs of each of its 64 runs under way, and 32 small ones.
INPUTS = WaitingLimits(of_party=2048, of_user=4096, of_all=8192)
TOGETHER = 64  # events that are handled at once: so long the next ones wait
LIMIT_S = 20.0

_log = logging.getLogger("crowdpipe.orchestrator")


class Mailbox:
    """A `SimpleQueue`, which takes a tenth of the time of a condition and a deque: all of an
    item's events pass here."""

    def __init__(
        self, bound: int = BOUND, requests: WaitingLimits = REQUESTS, inputs: WaitingLimits = INPUTS
    ) -> None:
        self._bound = bound
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._requests, self._inputs = Waiting(requests), Waiting(inputs)
        self._taken = threading.Condition()
        self._crowded = False

    def put(self, event: Event) -> None:
        """Raises `TimedOut` if nobody takes events; this one is then lost."""
        if self._full():
            self._wait_for_room(event)
        self._events.put(event)

    def has_room_for_request(self, party: str) -> bool:
        """Whether one more of the party's may be put now, by the only thread that puts any."""
        return self._requests.has_room(party)

    def put_request(self, event: RequestArrived) -> None:
        """Never waits: ask for room before."""
        self._requests.enter(event.party)
        self._events.put(event)

    def put_input(self, event: InputArrived | FrameLost) -> bool:
        """An input of a client's, or that one was lost. Never waits; whether it was taken."""
        party = _sender_of(event)
        taken = self._inputs.has_room(party)
        if taken:
            self._inputs.enter(party)
            self._events.put(event)
        return taken

    def _full(self) -> bool:
        of_clients = self._requests.count + self._inputs.count
        return self._events.qsize() - of_clients >= self._bound

    def _wait_for_room(self, event: Event) -> None:
        with self._taken:
            if self._taken.wait_for(self._has_room, LIMIT_S):
                return
        _log.error("the main thread is stuck; %s is lost", type(event).__name__)
        raise TimedOut(f"waited {LIMIT_S:g} s for the orchestrator's main thread")

    def answer(self, event: Event) -> None:
        """Like `put`, for the answer to something that the main thread asked for."""
        self._events.put(event)

    def wake(self) -> None:
        """Have the main thread look around."""
        self._events.put(None)

    def take(self, limit_s: float) -> list[Event]:
        """The next event and what waits behind it; none after `limit_s` or a wake."""
        taken: list[Event] = []
        event = self.get(limit_s)
        while event is not None:
            taken.append(event)
            more = len(taken) < TOGETHER and not self._events.empty()
            event = self.get(0.0) if more else None
        return taken

    def get(self, limit_s: float) -> Event | None:
        """The next event, or None after `limit_s` or a wake."""
        try:
            event = self._events.get(timeout=limit_s)
        except queue.Empty:
            return None
        if event is not None:
            self._note_taken(event)
        if self._crowded:
            self._tell_room()
        return event

    def _note_taken(self, event: Event) -> None:
        if isinstance(event, RequestArrived):
            self._requests.leave(event.party)
        elif isinstance(event, (InputArrived, FrameLost)) and is_client(_sender_of(event)):
            self._inputs.leave(_sender_of(event))

    def _has_room(self) -> bool:
        self._crowded = True  # before the look: what is taken from now on is told
        return not self._full()

    def _tell_room(self) -> None:
        with self._taken:
            self._crowded = False
            self._taken.notify_all()


def _sender_of(event: InputArrived | FrameLost) -> str:
    return event.party if isinstance(event, InputArrived) else event.sender
