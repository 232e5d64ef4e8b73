"""Broker, store, orchestrator and agents, each of which can be ended and started by itself.

What `crowdpipe up` runs in one process is apart here, so that one can die without the others.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from benchmarks.crowd.probe import Probe
from benchmarks.work import Work
from broker_config.child_process import Child
from broker_config.credentials import Credentials
from broker_config.mosquitto import MosquittoBroker
from crowdpipe.client.session import Session
from crowdpipe.serving.models import CutWishes, add_model
from crowdpipe.serving.stores import open_store
from crowdpipe.watching.observation import Observation
from crowdpipe.watching.watcher import Watcher
from model_store.server import StoreServer
from wire.broker_url import BrokerUrl
from wire.topics import ORCHESTRATOR

CLIENT, WATCHER = "local", "watcher"
MEMORY_NBYTES = 1 << 30
START_LIMIT_S = 60.0
END_LIMIT_S = 10.0
RUN_LIMIT_S = 120.0  # without any news, after which a run is given up


class FaultySystem:
    """Ready to serve `work` inside a `with`."""

    def __init__(self, work: Work, home: Path, devices: int) -> None:
        self._given = work
        self._home = home
        self.names = tuple(f"phone-{number}" for number in range(1, devices + 1))
        self._stack = ExitStack()
        self._agents: dict[str, Child] = {}
        self.work: Work
        self.broker: MosquittoBroker
        self._credentials: Credentials
        self._store: StoreServer
        self._orchestrator: Child
        self._probe: Probe
        self._watcher: Watcher

    def __enter__(self) -> FaultySystem:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        self._credentials = credentials = Credentials(self._home)
        for name, role in ((ORCHESTRATOR, "orchestrator"), (CLIENT, "client")):
            credentials.add(name, role)
        credentials.add(WATCHER, "watcher")
        for name in self.names:
            credentials.add(name, "device")
        self.broker = MosquittoBroker(self._home, credentials)
        stack.callback(self.broker.stop)
        self.broker.start()
        self._store = StoreServer(self._home / "store", authorise=credentials.verify)
        stack.callback(self._store.stop)
        self._store.start()
        with open_store(self._home) as store:
            wishes = CutWishes(max_shape=self._given.max_shape)
            manifest = add_model(store, self._given.model, self._given.name, wishes)
        self.work = self._given.ready(manifest)
        stack.callback(self._end_all)
        self.start_orchestrator()
        self._probe = stack.enter_context(Probe(self.url(CLIENT)))
        self._watcher = stack.enter_context(Watcher(self.url(WATCHER)))
        for name in self.names:
            self.start_agent(name)
        self.await_ready()

    def url(self, user: str) -> BrokerUrl:
        return self.broker.url_for(user)

    def session(self, partitions: int) -> Session:
        return Session(
            self.work.name,
            self.url(CLIENT),
            exact=True,
            partitions=partitions,
            timeout_s=RUN_LIMIT_S,
        )

    # --- the orchestrator ---------------------------------------------------------------------

    def start_orchestrator(self) -> None:
        known = self._credentials.get(ORCHESTRATOR)
        assert known is not None
        login = f"{ORCHESTRATOR}:{quote(known.secret)}@"
        settings = {
            "CROWDPIPE_BROKER": str(self.url(ORCHESTRATOR)),
            "CROWDPIPE_STORE": self._store.base.replace("http://", f"http://{login}"),
            "CROWDPIPE_HOME": str(self._home),
            "CROWDPIPE_LOG": os.environ.get("CROWDPIPE_LOG", "warning"),
        }
        program = [sys.executable, "-m", "orchestrator"]
        self._orchestrator = Child(
            program, self._home / "orchestrator.log", {**os.environ, **settings}
        )
        self._orchestrator.start()

    def kill_orchestrator(self) -> None:
        _kill(self._orchestrator)

    def await_orchestrator(self) -> None:
        """Until it answers."""
        self._probe.wait(START_LIMIT_S)

    # --- the broker and the store -------------------------------------------------------------

    def kill_broker(self) -> None:
        """Its persistence is what it has written by then."""
        os.kill(self.broker.pid, signal.SIGKILL)
        self.broker.stop()

    def stop_store(self) -> None:
        self._store.stop()

    def start_store(self) -> None:
        self._store.start()

    # --- agents -------------------------------------------------------------------------------

    def start_agent(self, name: str) -> None:
        folder = self._home / "agents" / name
        folder.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, "-m", "edge_agent", "--name", name, "--threads", "1"]
        program += ["--cache", str(folder / "cache"), "--memory", str(MEMORY_NBYTES)]
        settings = {
            "CROWDPIPE_AGENT_BROKER": str(self.url(name)),
            "CROWDPIPE_AGENT_CONFIG": os.devnull,
        }
        child = Child(
            [*program, "--log", "warning"], folder / "agent.log", {**os.environ, **settings}
        )
        self._agents[name] = child
        child.start()

    def signal_agent(self, name: str, number: int) -> None:
        self._agents[name].signal(number)

    def kill_agent(self, name: str) -> None:
        _kill(self._agents[name])

    def await_agent_gone(self, name: str) -> None:
        if not self._agents[name].wait(END_LIMIT_S):
            self.kill_agent(name)

    def empty_caches(self) -> None:
        """All agents start anew and have nothing."""
        for name in self.names:
            self.kill_agent(name)
            shutil.rmtree(self._home / "agents" / name / "cache", ignore_errors=True)
            self.start_agent(name)

    # --- all of it ----------------------------------------------------------------------------

    def mend(self) -> None:
        """Whatever is not there is started, and waited for."""
        if self._orchestrator.exit_code is not None:
            self.start_orchestrator()
        for name, child in self._agents.items():
            if child.exit_code is not None:
                self.start_agent(name)
        self.await_ready()

    def await_ready(self) -> None:
        self.await_orchestrator()
        self._watcher.wait(self._all_there, START_LIMIT_S, "all agents and the model")

    def _all_there(self, seen: Observation) -> bool:
        states = [seen.devices[name].state for name in self.names if name in seen.devices]
        online = sum(state is not None and state.status == "online" for state in states)
        return online == len(self.names) and self.work.name in seen.models

    def _end_all(self) -> None:
        for child in (*self._agents.values(), self._orchestrator):
            if child.exit_code is None:
                child.signal(signal.SIGCONT)
                child.signal(signal.SIGTERM)
        end = time.monotonic() + END_LIMIT_S
        for child in (*self._agents.values(), self._orchestrator):
            if not child.wait(max(0.0, end - time.monotonic())):
                _kill(child)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


def _kill(child: Child) -> None:
    """As a crash or the system's memory killer ends it, and until it is gone."""
    if child.exit_code is None:
        child.signal(signal.SIGKILL)
        child.wait(END_LIMIT_S)
