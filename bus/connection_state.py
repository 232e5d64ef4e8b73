"""What a connection goes through: the one table of its states, and when it is tried again. Pure.

Whoever owns the connection tells what happened, and when; here it is decided what that makes of
it. The network itself, threads and clocks are the owner's.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from bus.connection_policy import ConnectionPolicy
from wire.errors import CrowdpipeError, Refused, Untrusted
from wire.lifecycle import Lifecycle, Table

CONNECT_LIMIT_S = 15.0  # from the first byte until every subscription is granted
IDLE_S = 5.0  # longest sleep of the thread: finer would only cost a phone's battery
CONNECTING_IDLE_S = 0.5
DRAINING_IDLE_S = 0.05
CHECK = "check user and secret in the broker's address"
REMOVED = "the user was removed, or its secret is another by now"


class ConnectionState(StrEnum):
    NEW = "new"
    CONNECTING = "connecting"
    SUBSCRIBING = "subscribing"
    UP = "up"
    DRAINING = "draining"
    LOST = "lost"
    CLOSED = "closed"
    FAILED = "failed"


State = ConnectionState

TABLE: Table = {
    State.NEW: frozenset({State.CONNECTING, State.CLOSED}),
    # our CONNECT is on its way
    State.CONNECTING: frozenset({State.SUBSCRIBING, State.LOST, State.CLOSED, State.FAILED}),
    # the broker let us in and was asked for our subscriptions
    State.SUBSCRIBING: frozenset({State.UP, State.LOST, State.CLOSED, State.FAILED}),
    # every subscription is granted
    State.UP: frozenset({State.DRAINING, State.LOST, State.FAILED}),
    # asked to close; what waits is published first
    State.DRAINING: frozenset({State.CLOSED, State.LOST, State.FAILED}),
    # to be tried again
    State.LOST: frozenset({State.CONNECTING, State.CLOSED}),
    State.CLOSED: frozenset(),
    # trying again would not help, or would harm
    State.FAILED: frozenset(),
}

ATTACHED = frozenset({State.CONNECTING, State.SUBSCRIBING, State.UP, State.DRAINING})
CARRYING = frozenset({State.UP, State.DRAINING})
ENDED = frozenset({State.CLOSED, State.FAILED})


class ConnectionLife:
    """`jitter` is drawn for each delay, so that a fleet does not come back all at once.

    `reason` is why it was last lost, `error` why it failed. `resumes`: it was up before, so the
    broker may have kept its session. `retry_at` is meant while it is lost.
    """

    def __init__(self, policy: ConnectionPolicy, jitter: Callable[[], float]) -> None:
        self._policy = policy
        self._jitter = jitter
        self._lifecycle = Lifecycle(TABLE, "connection", "to the broker", State.NEW, 0.0)
        self._delay_s = policy.first_delay_s
        self._limit_at = 0.0
        self._refused_since: float | None = None  # without another answer since
        self.resumes = False
        self.reason = ""
        self.error: CrowdpipeError | None = None
        self.retry_at = 0.0

    @property
    def state(self) -> ConnectionState:
        return ConnectionState(self._lifecycle.state)

    @property
    def history(self) -> tuple[tuple[float, str, str], ...]:
        return self._lifecycle.history

    @property
    def attached(self) -> bool:
        """There is a socket, or is about to be."""
        return self._lifecycle.state in ATTACHED

    @property
    def carries(self) -> bool:
        """Messages may be published."""
        return self._lifecycle.state in CARRYING

    @property
    def ended(self) -> bool:
        return self._lifecycle.state in ENDED

    @property
    def idle_s(self) -> float:
        """For so long the owner's thread may sleep when nothing happens."""
        if self.state is State.UP:
            return IDLE_S
        return DRAINING_IDLE_S if self.state is State.DRAINING else CONNECTING_IDLE_S

    def begin(self, now: float) -> None:
        self._lifecycle.move(State.CONNECTING, now, "another try" if self.reason else "started")
        self._limit_at = now + CONNECT_LIMIT_S

    def accepted(self, now: float) -> None:
        self._lifecycle.move(State.SUBSCRIBING, now, "the broker lets us in")

    def granted(self, now: float) -> None:
        self._lifecycle.move(State.UP, now, "every subscription is granted")
        self.resumes = True
        self._refused_since = None
        self._delay_s = self._policy.first_delay_s

    def lost(self, reason: str, now: float) -> None:
        """Of several reasons the first stands: what follows is its consequence."""
        if not self.attached:
            return
        self._lifecycle.move(State.LOST, now, reason)
        self.reason, self._refused_since = reason, None
        self.retry_at = now + self._delay_s * self._jitter()
        self._delay_s = min(self._policy.longest_delay_s, 2 * self._delay_s)

    def unreached(self, broker: str, error: Exception, now: float) -> None:
        """No socket came about. One who never was whom we were told of is not tried again."""
        if isinstance(error, Untrusted) and not self.resumes:
            self.failed(error, now)
            return
        said = getattr(error, "strerror", None) or error
        self.lost(f"cannot reach the broker at {broker}: {said}", now)

    def refused(self, why: str, now: float) -> None:
        """The broker does not know us, or no more."""
        error = Refused(f"{why}; {REMOVED if self.resumes else CHECK}")
        since = now if self._refused_since is None else self._refused_since
        if not self.resumes or now >= since + self._policy.refused_s:
            self.failed(error, now)
        elif self.attached:
            self.lost(str(error), now)
            self._refused_since = since

    def failed(self, error: CrowdpipeError, now: float) -> None:
        if not self.attached:
            return
        self._lifecycle.move(State.FAILED, now, str(error))
        self.reason, self.error = str(error), error

    def close(self, limit_at: float, now: float) -> None:
        """Asked to end. What is up drains until `limit_at`; what is not has nothing to say."""
        if self.ended:
            return
        if self.state is State.UP:
            self._lifecycle.move(State.DRAINING, now, "asked to close")
        if self.state is not State.DRAINING:
            self._lifecycle.move(State.CLOSED, now, "asked to close")
        elif now >= limit_at:
            self._lifecycle.move(State.CLOSED, now, "the time to drain is over")

    def drained(self, now: float) -> None:
        self._lifecycle.move(State.CLOSED, now, "all is published")

    def expire(self, now: float) -> None:
        """A broker that does not answer is as good as none."""
        waits = self.attached and not self.carries
        if waits and now >= self._limit_at:
            self.lost(f"the broker did not answer within {CONNECT_LIMIT_S:g} s", now)
