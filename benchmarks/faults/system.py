"""Broker, store, orchestrator and agents, each of which can be ended and started by itself.

What `crowdpipe up` runs in one process is apart here, so that one can die without the others. Some
devices reach the broker over links that can be cut or spoilt.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from benchmarks.crowd.probe import Probe
from benchmarks.faults.agents import END_LIMIT_S, Agents, end
from benchmarks.faults.client import Client
from benchmarks.faults.link import Links
from benchmarks.work import Work
from broker_config.child_process import Child
from broker_config.credentials import Credentials
from broker_config.mosquitto import MosquittoBroker
from crowdpipe.client.session import Session
from crowdpipe.items_file import write_items
from crowdpipe.serving.models import CutWishes, add_model
from crowdpipe.serving.stores import open_store
from crowdpipe.watching.observation import Observation
from crowdpipe.watching.watcher import Watcher
from model_store.server import take_port
from wire.broker_url import BrokerUrl
from wire.errors import TimedOut
from wire.topics import ORCHESTRATOR

CLIENT, WATCHER = "local", "watcher"
LINKED = 2  # of the devices, whose links can be spoilt
NEWCOMERS = 40  # names that nobody has yet
START_LIMIT_S = 60.0
RUN_LIMIT_S = 60.0  # without any news, after which a run is given up
KNOCK_S = 0.02
AT_WORK = ("fetching", "loading")


class FaultySystem:
    """Ready to serve `work` inside a `with`."""

    def __init__(self, work: Work, home: Path, devices: int) -> None:
        self._given = work
        self._home = home
        self.names = tuple(f"phone-{number}" for number in range(1, devices + 1))
        self.linked = self.names[:LINKED]
        self._newcomers = [f"newcomer-{number}" for number in range(NEWCOMERS)]
        self._stack = ExitStack()
        self.work: Work
        self.broker: MosquittoBroker
        self.agents: Agents
        self.links: Links
        self.submitter: Client
        self._credentials: Credentials
        self._store: Child
        self._store_port: int
        self._orchestrator: Child
        self._probe: Probe
        self._watcher: Watcher

    def __enter__(self) -> FaultySystem:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        self._add_users()
        self.broker = MosquittoBroker(self._home, self._credentials)
        stack.callback(self.broker.stop)
        self.broker.start()
        door = (self.broker.host, self.broker.port)
        self.links = stack.enter_context(Links(door, self.linked))
        with take_port("127.0.0.1", 0) as free:
            self._store_port = free.getsockname()[1]
        with open_store(self._home) as store:
            wishes = CutWishes(max_shape=self._given.max_shape)
            manifest = add_model(store, self._given.model, self._given.name, wishes).manifest
        self.work = self._given.ready(manifest)
        self.start_store()
        stack.callback(self.kill_store)
        self.start_orchestrator()
        stack.callback(self.kill_orchestrator)
        self._probe = stack.enter_context(Probe(self.url(CLIENT)))
        self._watcher = stack.enter_context(Watcher(self.url(WATCHER)))
        self.agents = Agents(self._home / "agents", self._device_url)
        stack.callback(self.agents.stop)
        self.mend()

    def _add_users(self) -> None:
        self._credentials = credentials = Credentials(self._home)
        for name, role in ((ORCHESTRATOR, "orchestrator"), (CLIENT, "client")):
            credentials.add(name, role)
        credentials.add(WATCHER, "watcher")
        for name in (*self.names, *self._newcomers):
            credentials.add(name, "device")

    def url(self, user: str) -> BrokerUrl:
        return self.broker.url_for(user)

    def _device_url(self, name: str) -> BrokerUrl:
        url = self.url(name)
        return replace(url, port=self.links.port(name)) if name in self.linked else url

    def session(self, partitions: int) -> Session:
        return Session(
            self.work.name,
            self.url(CLIENT),
            exact=True,
            partitions=partitions,
            timeout_s=RUN_LIMIT_S,
        )

    def client(self, partitions: int) -> Client:
        """A client in a process of its own, which submits all items when it is entered."""
        path = self._home / "items.npz"
        if not path.exists():
            write_items(path, "numbered", self.work.items)
        self.submitter = Client(self.url(CLIENT), self.work.name, partitions, path)
        return self.submitter

    def newcomer(self) -> str:
        """The name of a device that was never there."""
        return self._newcomers.pop()

    # --- the orchestrator ---------------------------------------------------------------------

    def start_orchestrator(self) -> None:
        login = f"{ORCHESTRATOR}:{quote(self._credentials.need(ORCHESTRATOR).secret)}@"
        settings = {
            "CROWDPIPE_BROKER": str(self.url(ORCHESTRATOR)),
            "CROWDPIPE_STORE": f"http://{login}127.0.0.1:{self._store_port}",
            "CROWDPIPE_HOME": str(self._home),
            "CROWDPIPE_LOG": os.environ.get("CROWDPIPE_LOG", "warning"),
        }
        program = [sys.executable, "-m", "orchestrator"]
        self._orchestrator = Child(
            program, self._home / "orchestrator.log", {**os.environ, **settings}
        )
        self._orchestrator.start()

    def kill_orchestrator(self) -> None:
        end(self._orchestrator)

    def signal_orchestrator(self, number: int) -> None:
        self._orchestrator.signal(number)

    def await_orchestrator(self) -> None:
        """Until it answers."""
        self._probe.wait(START_LIMIT_S)

    # --- the broker and the store -------------------------------------------------------------

    def kill_broker(self, *, forgets: bool) -> None:
        """It has what it had written by then, or nothing at all."""
        os.kill(self.broker.pid, signal.SIGKILL)
        self.broker.stop()
        if forgets:
            (self.broker.log.parent / "mosquitto.db").unlink(missing_ok=True)

    def kill_store(self) -> None:
        end(self._store)

    def start_store(self) -> None:
        """Until it lets somebody in."""
        program = [sys.executable, "-m", "model_store", "--folder", str(self._home / "store")]
        program += ["--port", str(self._store_port)]
        program += ["--credentials", str(self._home / "credentials.json")]
        self._store = Child(program, self._home / "store.log")
        self._store.start()
        limit = time.monotonic() + START_LIMIT_S
        while not _answers(self._store_port):
            if time.monotonic() > limit:
                raise TimedOut(f"the store did not start within {START_LIMIT_S:g} s")
            self._store.wait(KNOCK_S)

    # --- all of it ----------------------------------------------------------------------------

    def empty_caches(self) -> None:
        """All agents start anew and have nothing."""
        for name in self.names:
            self.agents.kill(name)
            self.agents.empty(name)
            self.agents.start(name)

    def await_at_work(self, name: str, limit_s: float) -> bool:
        """Until the device fetches or loads something; whether it did within the limit."""
        try:
            self._watcher.wait(lambda seen: _is_at_work(seen, name), limit_s, "a fetch or a load")
        except TimedOut:
            return False
        return True

    def mend(self) -> None:
        """Whatever is not there is started, and waited for."""
        for name in self.linked:
            self.links.set(name)
        if self._orchestrator.exit_code is not None:
            self.start_orchestrator()
        if self._store.exit_code is not None:
            self.start_store()
        self.agents.mend(self.names)
        self.await_ready()

    def await_ready(self) -> None:
        self.await_orchestrator()
        self._watcher.wait(self._all_there, START_LIMIT_S, "all agents and the model")

    def _all_there(self, seen: Observation) -> bool:
        states = [seen.devices[name].state for name in self.names if name in seen.devices]
        online = sum(state is not None and state.status == "online" for state in states)
        return online == len(self.names) and self.work.name in seen.models

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), END_LIMIT_S).close()
    except OSError:
        return False
    return True


def _is_at_work(seen: Observation, name: str) -> bool:
    known = seen.devices.get(name)
    told = known.residency if known is not None else None
    return told is not None and any(each.status in AT_WORK for each in told.partitions)
