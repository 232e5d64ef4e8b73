"""How many connections there may be, and which is closed so that another may come.

Whoever connects gets in, and is judged by the first request. While a connection serves a request
that showed a secret, it counts for the user whose secret that is, wherever it comes from; before,
between and without such requests it counts for its address, and is closed if room is needed and its
address has the most of these: first of those without a whole request, or else of those whose
request nobody has looked at yet. Some places are never left to users, so that who comes always
finds one. Says which to close; closing is the protocol's affair. Not for several threads.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from model_store.groups import Groups

MOST = 512  # together
RESERVE = 128  # of those, never serving
EACH = 64  # that serve one user

Connection = TypeVar("Connection", bound=Hashable)


class ConnectionLimits(Generic[Connection]):
    def __init__(self) -> None:
        self._waiting: Groups[Connection] = Groups()  # for a request; by address
        self._asking: Groups[Connection] = Groups()  # with one that was not judged; by address
        self._serving: Groups[Connection] = Groups()  # by user
        self._all = (self._waiting, self._asking, self._serving)

    def admit(self, connection: Connection, address: str) -> Connection | None:
        """It is here, from there, until it has `left`; returns what has to be closed for it."""
        closed = None
        if sum(map(len, self._all)) >= MOST:
            closed = (self._waiting if self._waiting else self._asking).oldest_of_largest()
            self.left(closed)
        self._waiting.add(connection, address)
        return closed

    def ask(self, connection: Connection, address: str) -> None:
        """A whole request's head has come."""
        if connection in self._waiting:
            self._waiting.discard(connection)
            self._asking.add(connection, address)

    def serve(self, connection: Connection, user: str) -> Connection | None:
        """It has shown the secret of `user`; returns what has to be closed for that: one of whoever
        has the most, or itself if nobody has more than `user`, or `user` has enough."""
        if connection not in self._asking:
            return None
        self._asking.discard(connection)
        self._serving.add(connection, user)
        closed = self._one_too_many(connection, user)
        if closed is not None:
            self._serving.discard(closed)
        return closed

    def rest(self, connection: Connection, address: str) -> None:
        """It has answered, and waits for another request."""
        if connection in self._asking or connection in self._serving:
            self.left(connection)
            self._waiting.add(connection, address)

    def left(self, connection: Connection) -> None:
        """It is over. Twice does nothing."""
        for groups in self._all:
            groups.discard(connection)

    def _one_too_many(self, connection: Connection, user: str) -> Connection | None:
        if self._serving.size(user) > EACH:
            return connection
        if len(self._serving) <= MOST - RESERVE:
            return None
        others_have_more = self._serving.largest_size > self._serving.size(user)
        return self._serving.oldest_of_largest() if others_have_more else connection
