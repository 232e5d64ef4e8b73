"""A served home with agents for tests that only need some fleet, not one of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from broker_config.credentials import Credentials
from crowdpipe.home import read_up
from crowdpipe.serving.agents import AgentSpec, LocalAgents
from crowdpipe.serving.models import CutWishes, add_model
from crowdpipe.serving.served import ServedSystem
from crowdpipe.serving.stores import open_store
from crowdpipe.watching.watcher import Watcher
from tests.support.models import mlp, save
from wire.broker_url import BrokerUrl
from wire.manifest import Manifest

MEMORY_NBYTES = 16 << 20
ONLINE_LIMIT_S = 30.0
KNOWN_LIMIT_S = 15.0


@dataclass(frozen=True)
class Served:
    """What runs. `agents` may be stopped or killed by their pid."""

    home: Path
    agents: LocalAgents
    watcher: Watcher

    def url(self, user: str) -> BrokerUrl:
        return login(self.home, user)

    def add(
        self, name: str, layers: int = 6, seed: int = 0, model: onnx.ModelProto | None = None
    ) -> Manifest:
        """A tiny model in as many segments as it has layers, known to the orchestrator."""
        file = save(model or mlp(layers, seed), self.home / f"{name}.onnx")
        with open_store(self.home) as store:
            manifest = add_model(store, file, name, CutWishes(segments=layers)).manifest
        self.watcher.wait(
            lambda seen: name in seen.models, KNOWN_LIMIT_S, f"model {name} to be known"
        )
        return manifest

    def blob_path(self, digest: str) -> Path:
        return self.home / "store" / "blobs" / digest


def login(home: Path, user: str) -> BrokerUrl:
    record, known = read_up(home), Credentials(home).get(user)
    assert record is not None, f"nothing is served from {home}"
    assert known is not None, f"there is no user {user}"
    return record.url.login(known.name, known.secret)


@contextmanager
def served(home: Path, devices: int = 3, memory_nbytes: int = MEMORY_NBYTES) -> Iterator[Served]:
    names = [f"phone-{number}" for number in range(1, devices + 1)]
    for name in names:
        Credentials(home).add(name, "device")
    with ExitStack() as stack:
        stack.enter_context(ServedSystem(home))
        watcher = stack.enter_context(Watcher(login(home, "watcher")))
        specs = [AgentSpec(name, login(home, name), memory_nbytes) for name in names]
        agents = stack.enter_context(LocalAgents(specs, home / "agents"))
        watcher.wait(
            lambda seen: all(
                name in seen.devices
                and seen.devices[name].state is not None
                and seen.devices[name].state.status == "online"
                for name in names
            ),
            ONLINE_LIMIT_S,
            "the agents to come online",
        )
        yield Served(home, agents, watcher)
