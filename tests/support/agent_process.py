"""A real agent in a process of its own, and a desk that plays its orchestrator.

The desk speaks the protocol by hand, so that these tests need the agent, the broker and the store
and nothing else of ours.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_store.server import StoreServer
from tests.support.broker import BrokerUnderTest, fresh_name
from tests.support.chain import Chain
from tests.support.mqtt_client import MqttClient
from wire.broker_url import BrokerUrl
from wire.elements import Element
from wire.errors import Malformed
from wire.frame_head import FrameSettings
from wire.frames import Frame, decode_frame, encode_frame, encode_tensor
from wire.ids import ActivationId, mint
from wire.messages.assignment import Assignment, PartitionAssignment, Route
from wire.messages.commands import Command, CommandBatch
from wire.messages.events import EventBatch
from wire.messages.residency import Residency
from wire.messages.state import DeviceState
from wire.messages.telemetry import Telemetry
from wire.parts import (
    Credit,
    Transfer,
    decode,
    encode_credit,
    encode_part,
    pieces_of,
    split,
)
from wire.planes import Buffer
from wire.reassembly import Reassembly
from wire.record import decode as read_record
from wire.record import encode
from wire.topics import ORCHESTRATOR, Topics

ROOT = Path(__file__).parents[2]
TOPICS = Topics()
LIMIT_S = 30.0
KINDS = {"state": DeviceState, "residency": Residency, "telemetry": Telemetry, "events": EventBatch}


class AgentProcess:
    """`crowdpipe-agent` with its own folder. What it says is in `log`."""

    program: tuple[str, ...] = ("-m", "edge_agent")

    def __init__(self, name: str, url: BrokerUrl, folder: Path, *flags: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.folder = folder
        self.log = folder / "agent.log"
        command = [sys.executable, *self.program, "--broker", str(url), "--name", name]
        command += ["--cache", str(folder / "cache"), "--log", "debug", *flags]
        environment = {**os.environ, "HOME": str(folder)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log)

    def blob(self, digest: str) -> Path:
        return self.folder / "cache" / "blobs" / digest

    def rss_nbytes(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def maps(self) -> str:
        return Path(f"/proc/{self.process.pid}/maps").read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(LIMIT_S)

    def said(self) -> str:
        return self.log.read_text()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT_S)


class Desk:
    """Plays the orchestrator; keeps everything it hears, in order."""

    def __init__(self, client: MqttClient) -> None:
        self._client = client
        self._heard: list[tuple[str, Any, bool]] = []
        self._frames: dict[ActivationId, Frame] = {}
        self._reassembly = Reassembly(1 << 30)
        self._revisions = itertools.count(1)
        client.subscribe(
            *(TOPICS.subscription(name) for name in ("device_state", "residency", "events")),
            TOPICS.subscription("telemetry"),
            TOPICS.inbox(ORCHESTRATOR),
        )

    def assign(
        self,
        device: str,
        store_base: str,
        partitions: Sequence[PartitionAssignment],
        routes: Sequence[Route] = (),
    ) -> Assignment:
        said = Assignment(1, next(self._revisions), store_base, tuple(partitions), tuple(routes))
        topic = TOPICS.device(device, "assignment")
        self._client.publish(topic, encode(said), retain=True)
        return said

    def command(self, device: str, *commands: Command) -> None:
        self._client.publish(TOPICS.device(device, "commands"), encode(CommandBatch(1, commands)))

    def send(
        self,
        device: str,
        model: str,
        run: str,
        item: int,
        cut: int,
        settings: FrameSettings,
        **arrays: Any,
    ) -> None:
        """A frame of float32 arrays, in as many parts as it takes, without waiting for credits."""
        tensors = tuple(
            encode_tensor(name, Element.FLOAT, array.shape, array.tobytes())
            for name, array in arrays.items()
        )
        activation = ActivationId(run, item, cut)
        frame = encode_frame(Frame(model, activation, 0, settings, tensors))
        for part in split(Transfer(activation, 0), frame, 256 << 10):
            self._client.publish(TOPICS.data(device, ORCHESTRATOR), encode_part(part))

    def until(self, device: str, kind: str, wanted: Callable[[Any], bool]) -> Any:
        """The first message of `kind` from this device that is `wanted`, heard already or to
        come."""
        return self._until(
            lambda: next((r for d, r, _ in self._of(device, kind) if wanted(r)), None),
            f"{kind} of {device}",
        )

    def event(self, device: str, kind: type, wanted: Callable[[Any], bool] = lambda _: True) -> Any:
        """The first event of that class that is wanted."""
        return self._until(
            lambda: next(
                (e for e in self.events(device) if isinstance(e, kind) and wanted(e)), None
            ),
            f"{kind.__name__} of {device}",
        )

    def events(self, device: str) -> list[Any]:
        """All events heard of this device so far, each once, in order of their numbers."""
        numbered: dict[tuple[str, int], Any] = {}
        for _, batch, _ in self._of(device, "events"):
            for offset, event in enumerate(batch.events):
                numbered.setdefault((batch.boot, batch.first_seq + offset), event)
        return list(numbered.values())

    def states(self, device: str, retained: bool = False) -> list[DeviceState]:
        return [state for _, state, kept in self._of(device, "state") if kept == retained]

    def frame(self, activation: ActivationId) -> Frame:
        """The frame that arrives at the desk under this name."""
        return self._until(lambda: self._frames.get(activation), f"frame {activation}")

    def array(self, activation: ActivationId, name: str) -> np.ndarray:
        tensor = self.frame(activation).tensor(name)
        return np.frombuffer(tensor.data(), np.float32).reshape(tensor.shape)

    def _of(self, device: str, kind: str) -> list[tuple[str, Any, bool]]:
        topic = TOPICS.device(device, kind)
        return [entry for entry in self._heard if entry[0] == topic]

    def _until(self, found: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + LIMIT_S
        while (value := found()) is None:
            left = deadline - time.monotonic()
            assert left > 0, f"waited {LIMIT_S:g} s for {what}; heard {self._heard[-5:]}"
            self._hear(self._client.messages.get(timeout=left))
        return value

    def _hear(self, message: Any) -> None:
        if TOPICS.is_data(message.topic):
            self._hear_data(message)
            return
        kind = KINDS[message.topic.rpartition("/")[2]]
        if not message.payload:
            return
        try:
            record = read_record(kind, message.payload)
        except Malformed:
            return  # the broker is shared: other tests say other things about other devices
        self._heard.append((message.topic, record, message.retain))

    def _hear_data(self, message: Any) -> None:
        _, sender = TOPICS.sender(message.topic)
        for piece in pieces_of(message.payload):
            self._hear_piece(sender, piece)

    def _hear_piece(self, sender: str, piece: Buffer) -> None:
        part = decode(piece)
        if isinstance(part, Credit):
            return
        whole = self._reassembly.add(sender, part, time.monotonic())
        if part.count > 1:
            credit = encode_credit(Credit(part.transfer, part.index, part.count))
            self._client._client.publish(TOPICS.data(sender, ORCHESTRATOR), credit, qos=0)
        if whole is not None:
            frame = decode_frame(bytes(whole), 1 << 30)
            self._frames[frame.activation] = frame


class Fleet:
    """Broker, store, desk, and agents that end with the test."""

    def __init__(self, broker: BrokerUnderTest, store: StoreServer, desk: Desk, home: Path) -> None:
        self.broker = broker
        self.store = store
        self.desk = desk
        self.home = home
        self.agents: list[AgentProcess] = []

    @property
    def store_base(self) -> str:
        return f"http://:{self.store.port}"

    def put(self, chain: Chain) -> None:
        for digest, data in chain.blobs.items():
            self.store.blobs.put([data], digest)

    def start(
        self, *flags: str, name: str | None = None, folder: str | None = None
    ) -> AgentProcess:
        name = name or fresh_name("agent")
        url = self.broker.login(name)
        agent = AgentProcess(name, url, self.home / (folder or name), *flags)
        self.agents.append(agent)
        return agent

    def online(self, *flags: str, name: str | None = None) -> AgentProcess:
        """An agent that has said so."""
        agent = self.start(*flags, name=name)
        self.desk.until(agent.name, "state", lambda state: state.status == "online")
        return agent

    def run_name(self) -> str:
        return mint()


@pytest.fixture
def fleet(mosquitto: BrokerUnderTest, tmp_path: Path) -> Iterator[Fleet]:
    store = StoreServer(tmp_path / "store", authorise=mosquitto.credentials.verify)
    store.start()
    with mosquitto.connect(ORCHESTRATOR, "orchestrator") as client:
        fleet = Fleet(mosquitto, store, Desk(client), tmp_path)
        yield fleet
        for agent in fleet.agents:
            agent.end()
            client.publish(TOPICS.device(agent.name, "assignment"), b"", retain=True)
    store.stop()
