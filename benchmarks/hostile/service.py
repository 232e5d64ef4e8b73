"""A client that is served while others attack: a run after the other, and before each a request to
the store. Each answer is looked at."""

from __future__ import annotations

import base64
import http.client
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from crowdpipe.client.session import Session
from crowdpipe.items_file import Arrays
from wire.broker_url import BrokerUrl
from wire.errors import CrowdpipeError

STORE_EVERY_S = 0.5
STORE_LIMIT_S = 10.0
OK = 200


@dataclass(slots=True)
class Served:
    """Seconds of each run, and of each request to the store; what was not as it should be."""

    runs_s: list[float] = field(default_factory=list)
    store_s: list[float] = field(default_factory=list)
    asked: int = 0
    delivered: int = 0
    wrong: int = 0
    errors: list[str] = field(default_factory=list)


class Service:
    """`login`: of a user that may read the store at `store_port`, which has the model `name`."""

    def __init__(
        self,
        session: Session,
        items: Sequence[Arrays],
        expected: Sequence[Arrays],
        store_port: int,
        login: BrokerUrl,
        name: str,
    ) -> None:
        self._session = session
        self._items, self._expected = items, expected
        self._store_port = store_port
        secret = base64.b64encode(f"{login.user}:{login.secret}".encode()).decode()
        self._headers = {"Authorization": f"Basic {secret}"}
        self._path = f"/manifests/{name}"

    def serve(self, seconds: float) -> Served:
        """All that began within so many seconds; at least one of each."""
        served, end, store_at = Served(), time.monotonic() + seconds, 0.0
        while (now := time.monotonic()) < end or not (served.runs_s or served.errors):
            if now >= store_at:
                self.read(served)
                store_at = now + STORE_EVERY_S
            self.run(served)
        return served

    def run(self, served: Served) -> None:
        begun = time.monotonic()
        served.asked += len(self._items)
        try:
            for index, outputs in self._session.run_many(self._items, ordered=False):
                served.delivered += 1
                whole = self._expected[index].values()
                served.wrong += not all(map(np.array_equal, outputs, whole))
        except CrowdpipeError as error:
            served.errors.append(f"{type(error).__name__}: {error}")
            return
        served.runs_s.append(time.monotonic() - begun)

    def read(self, served: Served) -> None:
        begun = time.monotonic()
        try:
            line = http.client.HTTPConnection("127.0.0.1", self._store_port, timeout=STORE_LIMIT_S)
            line.request("GET", self._path, headers=self._headers)
            answer = line.getresponse()
            answer.read()
            line.close()
        except (OSError, http.client.HTTPException) as error:
            served.errors.append(f"the store: {error!r}")
            return
        if answer.status != OK:
            served.errors.append(f"the store answered {answer.status}")
        served.store_s.append(time.monotonic() - begun)
