"""Broker, store and orchestrator, each started as a person starts it, for many devices.

The orchestrator is a process of its own and can be stopped and started again, while the broker
keeps what is retained. All of it is ended on leaving the `with`.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from benchmarks.crowd.connections import Connections
from benchmarks.crowd.device import name_of
from benchmarks.crowd.probe import Probe
from broker_config.child_process import Child
from broker_config.credentials import Credentials
from broker_config.mosquitto import MosquittoBroker
from broker_config.private_file import write_private
from model_store.server import StoreServer
from wire.topics import ORCHESTRATOR
from wire.users import FORMAT, User, Users, write_users

CLIENT = "local"
STOP_LIMIT_S = 4.0  # an orchestrator that is busy for longer is killed


class CrowdDesk:
    """`devices`: how many may connect."""

    def __init__(self, home: Path, devices: int) -> None:
        self._home = home
        self._devices = devices
        self._secret = secrets.token_urlsafe()
        self._stack = ExitStack()
        self._orchestrator: Child | None = None
        self._broker: MosquittoBroker
        self._store: StoreServer
        self.connections: Connections
        self.probe: Probe

    def __enter__(self) -> CrowdDesk:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        credentials = Credentials(self._home)
        write_private(credentials.path, write_users(Users(FORMAT, tuple(self._users()))))
        self._broker = MosquittoBroker(self._home, credentials)
        stack.callback(self._broker.stop)
        self._broker.start()
        self._store = StoreServer(self._home / "store", authorise=credentials.verify)
        self._store.start()
        stack.callback(self._store.stop)
        stack.callback(self.stop)
        self.probe = stack.enter_context(Probe(self._broker.url_for(CLIENT)))
        connections = Connections(self._broker.url, self._secret)
        self.connections = stack.enter_context(connections)

    def _users(self) -> list[User]:
        names = map(name_of, range(self._devices))
        others = (User(ORCHESTRATOR, "orchestrator", self._secret), User(CLIENT, "client", "local"))
        return [*others, *(User(name, "device", self._secret) for name in names)]

    def start(self, limit_s: float) -> float:
        """Seconds from starting the process until the orchestrator has read all that is retained;
        `TimedOut` at the limit."""
        login = f"{ORCHESTRATOR}:{quote(self._secret)}@"
        settings = {
            "CROWDPIPE_BROKER": str(self._broker.url_for(ORCHESTRATOR)),
            "CROWDPIPE_STORE": self._store.base.replace("http://", f"http://{login}"),
            "CROWDPIPE_HOME": str(self._home),
            "CROWDPIPE_LOG": "warning",
        }
        program = [sys.executable, "-m", "orchestrator"]
        log = self._home / "orchestrator.log"
        self._orchestrator = Child(program, log, {**os.environ, **settings})
        begun = time.monotonic()
        self._orchestrator.start()
        self.probe.wait(limit_s)
        return time.monotonic() - begun

    def stop(self) -> None:
        if self._orchestrator is not None:
            self._orchestrator.stop(STOP_LIMIT_S)
            self._orchestrator = None

    @property
    def pid(self) -> int:
        """Of the orchestrator that runs now."""
        assert self._orchestrator is not None
        return self._orchestrator.pid

    @property
    def broker_pid(self) -> int:
        return self._broker.pid

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()
