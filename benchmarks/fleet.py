"""The real system as a person starts it: `crowdpipe up`, agents as processes, a client session.

Every process is of its own, so that what one takes is nobody else's. All of it is ended on
leaving the `with`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.bare import Bare
from benchmarks.happenings import Happenings, Stage, whole_items
from benchmarks.rack import Rack
from benchmarks.tally import Tally
from benchmarks.work import Work
from broker_config.credentials import Credentials
from crowdpipe.client.session import Session
from crowdpipe.home import read_up
from crowdpipe.serving.agents import AgentSpec, LocalAgents
from crowdpipe.serving.models import CutWishes, add_model
from crowdpipe.serving.served import ServedSystem
from crowdpipe.serving.stores import open_store
from crowdpipe.watching.login import WATCHER, login_of
from crowdpipe.watching.observation import Observation
from crowdpipe.watching.watcher import Watcher
from wire.broker_url import BrokerUrl
from wire.errors import OperatorError
from wire.manifest import Manifest
from wire.messages.events import PartitionLoaded
from wire.messages.residency import PartitionResidency
from wire.topics import ORCHESTRATOR, Role, Topics

ONLINE_LIMIT_S = 60.0
EVENTS_LIMIT_S = 15.0  # after the last result, for what devices still tell of it
RUN_LIMIT_S = 300.0
SETTLE_TRIES = 4
ROOMY_NBYTES = 1 << 30
BARE = ("bare-1", "bare-2")


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """How many agents, and what each may take for its partition; on emulated phones where there
    is a rack. `cut_after`: cut the model there alone. `guests`: other users by name, each with
    its role."""

    devices: int = 5
    memory_nbytes: int = ROOMY_NBYTES
    rack: Rack | None = None
    cut_after: tuple[str, ...] | None = None
    guests: Mapping[str, Role] = field(default_factory=dict)


class Fleet:
    """Ready to serve `work` inside a `with`; nothing is loaded yet."""

    def __init__(self, work: Work, home: Path, spec: FleetSpec) -> None:
        self._given = work
        self._home = home
        self._spec = spec
        self._stack = ExitStack()
        self.happenings = Happenings()
        self.names = tuple(f"phone-{number}" for number in range(1, spec.devices + 1))
        self.work: Work
        self.manifest: Manifest
        self.watcher: Watcher
        self.store_port: int
        self._agents: LocalAgents
        self._watched: ExitStack
        self._system: ServedSystem

    def __enter__(self) -> Fleet:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        credentials = Credentials(self._home)
        for name in (*self.names, *BARE):
            credentials.add(name, "device")
        for name, role in self._spec.guests.items():
            credentials.add(name, role)
        self._system = stack.enter_context(ServedSystem(self._home))
        record = read_up(self._home)
        if record is None:
            raise OperatorError("crowdpipe up ended right after it started")
        self._url = record.url
        self.store_port = urlsplit(record.store).port or 0
        with open_store(self._home) as store:
            wishes = CutWishes(max_shape=self._given.max_shape, cut_after=self._spec.cut_after)
            self.manifest = add_model(store, self._given.model, self._given.name, wishes).manifest
        self.work = self._given.ready(self.manifest)
        self._watched = stack.enter_context(ExitStack())
        self._watch()
        specs = list(self._agent_specs(stack))
        self._agents = stack.enter_context(LocalAgents(specs, self._home / "agents", "warning"))
        self.watcher.wait(self._all_there, ONLINE_LIMIT_S, "the agents and the model")

    def _watch(self) -> None:
        login = login_of(self._home, self._url, WATCHER)
        watcher = Watcher(login, hear=self.happenings.hear)
        self.watcher = self._watched.enter_context(watcher)

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Without the watcher meanwhile, which reads all that everybody says: nobody needs one to
        serve a model."""
        self._watched.close()
        try:
            yield
        finally:
            self._watch()
            self.watcher.wait(self._all_there, ONLINE_LIMIT_S, "the agents and the model")

    def served(self) -> tuple[str, ...]:
        """Who serves what now."""
        return self.watcher.look(
            lambda seen: tuple(
                f"{name} {entry.partition}"
                for name in self.names
                for entry in _partitions(seen, name)
                if entry.status == "resident"
            )
        )

    def _agent_specs(self, stack: ExitStack) -> Iterator[AgentSpec]:
        rack, memory_nbytes = self._spec.rack, self._spec.memory_nbytes
        logins = {name: login_of(self._home, self._url, name) for name in self.names}
        if rack is None:
            yield from (AgentSpec(name, url, memory_nbytes) for name, url in logins.items())
            return
        stack.enter_context(rack.connect((self._url.port, self.store_port)))
        for index, (name, url) in enumerate(logins.items()):
            there = replace(url, host=rack.address(index))
            yield AgentSpec(name, there, memory_nbytes, rack.prefix(index))

    def _all_there(self, seen: Observation) -> bool:
        states = [seen.devices[name].state for name in self.names if name in seen.devices]
        online = sum(state is not None and state.status == "online" for state in states)
        return online == len(self.names) and self.work.name in seen.models

    def session(self, *, partitions: int | None = None, **options: Any) -> Session:
        """A client of the fleet, which has every agent serve a partition unless it is told
        another number; close it."""
        wanted = partitions or min(len(self.names), len(self.manifest.segments))
        options |= {"partitions": wanted, "timeout_s": RUN_LIMIT_S}
        return Session(self.work.name, self._url, **options)

    def watched(self, act: Callable[[], None], count: int) -> list[list[Stage]]:
        """The stages of the `count` items that `act` runs through the fleet, item by item."""
        mark, segments = self.happenings.mark(), len(self.manifest.segments)
        act()
        events = self.happenings.wait(
            mark, lambda seen: len(whole_items(seen, segments)) >= count, EVENTS_LIMIT_S
        )
        return whole_items(events, segments)

    def settle(self, act: Callable[[], None]) -> None:
        """Repeat `act` until agents load nothing for it: plans change while devices are measured.
        Gives up after a few times; `loads_told` then says what went on."""
        for _ in range(SETTLE_TRIES):
            mark = self.happenings.mark()
            act()
            if not self._loads(mark):
                return

    def _loads(self, mark: int) -> int:
        events = self.happenings.since(mark)
        return sum(isinstance(event, PartitionLoaded) for _, event in events)

    def loads_told(self, mark: int) -> str:
        """A remark if agents loaded partitions since `mark`: then not all of it was warm."""
        loads = self._loads(mark)
        return f"not all of it was warm: {loads} loads while measuring" if loads else ""

    def login(self, user: str) -> BrokerUrl:
        """How a user of the broker comes in."""
        return login_of(self._home, self._url, user)

    def tally(self) -> Tally:
        """Of all messages to and from the orchestrator. No user may read all of them: each reads
        what is its own."""
        topics, client = Topics(), self._url
        own = [(self.login(WATCHER), f"{topics.control_root}/#")]
        own.append((self.login(ORCHESTRATOR), topics.inbox(ORCHESTRATOR)))
        own += [(self.login(name), topics.data(name, ORCHESTRATOR)) for name in self.names]
        own.append((client, topics.data(f"clients/{client.user}/+", ORCHESTRATOR)))
        return Tally(own)

    @property
    def logs(self) -> tuple[Path, ...]:
        """What the programs have written about themselves."""
        desk = (self._home / "up.log", self._home / "broker" / "broker.log")
        return (*desk, *(self._home / "agents" / name / "agent.log" for name in self.names))

    @contextmanager
    def bare(self) -> Iterator[tuple[Bare, Bare]]:
        """Two clients of the broker that could pass each other what agents do."""
        one, other = (login_of(self._home, self._url, name) for name in BARE)
        with Bare(one, BARE[0]) as first, Bare(other, BARE[1]) as second:
            yield first, second

    @property
    def pids(self) -> dict[str, int]:
        """Of the agents, by name."""
        return self._agents.pids

    @property
    def desk_pids(self) -> dict[str, int]:
        """Of what runs at the desk: the orchestrator (with the store) and the broker."""
        children = psutil.Process(self._system.pid).children(recursive=True)
        brokers = {child.name(): child.pid for child in children}
        return {"orchestrator": self._system.pid, **brokers}

    def check(self) -> None:
        """`OperatorError` if a part of it has ended."""
        self._system.check()
        self._agents.check()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


def _partitions(seen: Observation, name: str) -> tuple[PartitionResidency, ...]:
    residency = seen.devices[name].residency
    return residency.partitions if residency is not None else ()
