"""A real broker, a real store, a real orchestrator and real agents, and a client that speaks the
protocol by hand.

The orchestrator runs in this process, so that tests can look into it, or as a program of its own.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from model_store.server import StoreServer
from orchestrator.machine.records.options import OrchestratorOptions
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.shell.orchestrator import Orchestrator
from orchestrator.shell.settings import OrchestratorSettings, make_settings
from tests.support.agent_process import ROOT, AgentProcess
from tests.support.broker import BrokerUnderTest, fresh_name, need_mosquitto
from tests.support.models import save
from tests.support.mqtt_client import MqttClient
from wire import frames
from wire.elements import Element
from wire.frame_head import FrameSettings
from wire.ids import ActivationId, mint
from wire.manifest import Manifest
from wire.messages.requests import (
    Accepted,
    AcknowledgeResults,
    CancelRun,
    InputsStored,
    ItemFailed,
    Rejected,
    Request,
    Response,
    Resume,
    RunOptions,
    Submit,
)
from wire.parts import PART_NBYTES, Credit, Transfer, encode_credit, encode_part, pieces_of, split
from wire.parts import decode as read_piece
from wire.planes import Buffer
from wire.reassembly import Reassembly
from wire.record import decode, encode
from wire.topics import ORCHESTRATOR, Topics, client_party

TOPICS = Topics()
LIMIT_S = 45.0
QUICK = OrchestratorOptions(settle_s=0.5, ping_wait_s=2.0)


def whole_model(model: onnx.ModelProto, exact: bool = True) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if exact:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


class Person:
    """A client that speaks raw MQTT: submits runs, sends inputs, collects outcomes."""

    def __init__(self, broker: BrokerUnderTest, session: str | None = None) -> None:
        self.party = client_party("client", session or mint(4))
        self.results: dict[int, dict[str, np.ndarray]] = {}
        self.failures: dict[int, ItemFailed] = {}
        self.said: list[Any] = []
        self.repeats = 0
        self._reassembly = Reassembly(1 << 30)
        self._client = MqttClient(broker.client)

    def __enter__(self) -> Person:
        self._client.__enter__()
        self._client.subscribe(TOPICS.client(self.party, "responses"), TOPICS.inbox(self.party))
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()

    def ask(self, request: Request) -> None:
        self._client.publish(TOPICS.client(self.party, "requests"), encode(request))

    def submit(
        self,
        model: str,
        count: int | None,
        options: RunOptions | None = None,
        run: str | None = None,
    ) -> str:
        """The id of a run that was accepted."""
        run = run or mint()
        self.ask(Submit(run, model, options or RunOptions(), count))
        self.until(lambda: self.answer(Accepted, run), "the run to be accepted")
        return run

    def submit_until_accepted(self, model: str, count: int | None, options: RunOptions) -> str:
        """As clients do while the orchestrator or the model may still be on their way."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            run = mint()
            self.ask(Submit(run, model, options, count))
            answered = self._answered(run)
            if answered:
                return run
            assert time.monotonic() < deadline, f"the run was not accepted: {self.said[-3:]}"

    def _answered(self, run: str, limit_s: float = 0.5) -> bool:
        deadline = time.monotonic() + limit_s
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                self._hear(self._client.next(left))
            if any(isinstance(each, Accepted) and each.run == run for each in self.said):
                return True
        return False

    def fetch(self, run: str, count: int) -> None:
        """Ask for what is not acknowledged until all of it came, as a client does that does not
        know when the orchestrator is back."""
        deadline = time.monotonic() + LIMIT_S
        while self.ended < count:
            self.resume(run)
            with contextlib.suppress(queue.Empty):
                self._hear(self._client.next(0.5))
            assert time.monotonic() < deadline, f"only {self.ended} of {count} outcomes came"

    def send(self, manifest: Manifest, run: str, item: int, **arrays: np.ndarray) -> None:
        tensors = tuple(
            frames.encode_tensor(
                name,
                Element(onnx.helper.np_dtype_to_tensor_dtype(array.dtype)),
                array.shape,
                array.tobytes(),
            )
            for name, array in arrays.items()
        )
        at = ActivationId(run, item, 0)
        frame = frames.Frame(manifest.digest, at, 0, FrameSettings(), tensors)
        data = frames.encode_frame(frame)
        for part in split(Transfer(at, 0), data, PART_NBYTES):
            self._client.publish(TOPICS.data(ORCHESTRATOR, self.party), encode_part(part))

    def send_stored(self, manifest: Manifest, run: str, item: int, **arrays: np.ndarray) -> None:
        """Send an input and wait until it is on the orchestrator's disk."""
        self.send(manifest, run, item, **arrays)
        self.until(lambda: item in self.stored(run), f"input {item} to be stored")

    def stored(self, run: str) -> set[int]:
        told = [each for each in self.said if isinstance(each, InputsStored) and each.run == run]
        return {i for each in told for first, last in each.ranges for i in range(first, last + 1)}

    def finish(self, run: str, count: int) -> None:
        """Wait for an outcome of each item, and acknowledge them."""
        self.until(lambda: self.ended >= count, f"{count} outcomes, not {self.ended}")
        self.ask(AcknowledgeResults(run, tuple(range(count))))

    def cancel(self, run: str) -> None:
        self.ask(CancelRun(run))

    def resume(self, run: str) -> None:
        self.ask(Resume(run))

    @property
    def ended(self) -> int:
        return len(self.results) + len(self.failures)

    def answer(self, kind: type, run: str) -> Any:
        refusal = next(
            (each for each in self.said if isinstance(each, Rejected) and each.run == run), None
        )
        assert refusal is None or kind is Rejected, f"the run was rejected: {refusal}"
        return next(
            (each for each in self.said if isinstance(each, kind) and each.run == run), None
        )

    def until(self, found: Any, what: str, limit_s: float = LIMIT_S) -> Any:
        deadline = time.monotonic() + limit_s
        while not (value := found()):
            left = deadline - time.monotonic()
            assert left > 0, f"waited {limit_s:g} s for {what}; heard {self.said[-5:]}"
            self._hear(self._client.next(left))
        return value

    def _hear(self, message: Any) -> None:
        if not TOPICS.is_data(message.topic):
            said = decode(Response, message.payload)
            self.said.append(said)
            if isinstance(said, ItemFailed):
                self.failures[said.item] = said
            return
        for each in pieces_of(message.payload):
            self._hear_piece(each)

    def _hear_piece(self, said: Buffer) -> None:
        piece = read_piece(said)
        assert not isinstance(piece, Credit) or piece.count > 1
        if isinstance(piece, Credit):
            return
        whole = self._reassembly.add(ORCHESTRATOR, piece, time.monotonic())
        if piece.count > 1:
            credit = encode_credit(Credit(piece.transfer, piece.index, piece.count))
            topic = TOPICS.data(ORCHESTRATOR, self.party)
            self._client._client.publish(topic, credit, qos=0)
        if whole is not None:
            frame = frames.decode_frame(bytes(whole), 1 << 30)
            assert frame.activation == piece.transfer.activation, "a frame under a false name"
            self._take(frame)

    def _take(self, frame: frames.Frame) -> None:
        item = frame.activation.item
        self.repeats += item in self.results
        self.results[item] = {
            tensor.name: np.frombuffer(
                tensor.data(), onnx.helper.tensor_dtype_to_np_dtype(tensor.kind)
            ).reshape(tensor.shape)
            for tensor in frame.tensors
        }


class System:
    """Everything but the client. `stop` ends what is left."""

    def __init__(self, broker: BrokerUnderTest, home: Path) -> None:
        self.broker = broker
        self.home = home
        self.store = StoreServer(home / "store", authorise=broker.credentials.verify)
        self.store.start()
        self.agents: list[AgentProcess] = []
        self.orchestrator: Orchestrator | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def settings(self, **others: Any) -> OrchestratorSettings:
        others.setdefault("options", QUICK)
        return make_settings(
            str(self.broker.orchestrator), self.store.base, self.home / "orchestrator", **others
        )

    def start(self, **others: Any) -> Orchestrator:
        """An orchestrator in this process, ready."""
        self.orchestrator = Orchestrator(self.settings(**others))
        self.orchestrator.start()
        self.orchestrator.wait_ready(LIMIT_S)
        return self.orchestrator

    def start_process(self, *flags: str) -> subprocess.Popen[bytes]:
        """An orchestrator as a program; what it says is in `orchestrator.log`."""
        command = [sys.executable, "-m", "orchestrator", "--broker", str(self.broker.orchestrator)]
        command += ["--store", self.store.base, "--home", str(self.home), *flags]
        command += ["--option", "settle_s=0.5", "--log", "debug"]
        with (self.home / "orchestrator.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log)
        return self.process

    def said(self) -> str:
        return (self.home / "orchestrator.log").read_text()

    def add(self, model: onnx.ModelProto, name: str, **options: Any) -> Manifest:
        """Cut the model and store it."""
        return self.add_file(save(model, self.home / f"{name}.onnx"), name, **options)

    def add_file(self, path: Path, name: str, **options: Any) -> Manifest:
        manifest = segment(path, name, self.store.blobs.put, options=SegmentOptions(**options))
        self.store.manifests.put(name, encode(manifest))
        return manifest

    def agent(self, *flags: str, name: str | None = None) -> AgentProcess:
        name = name or fresh_name("agent")
        flags = flags or ("--memory", "64MiB")
        agent = AgentProcess(name, self.broker.login(name), self.home / name, *flags)
        self.agents.append(agent)
        return agent

    def stop(self) -> None:
        if self.orchestrator is not None:
            self.orchestrator.stop()
        for agent in self.agents:
            agent.end()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(LIMIT_S)
        self.store.stop()


@contextlib.contextmanager
def deployed(home: Path, agents: int, *flags: str) -> Iterator[System]:
    """A system of its own broker, with so many agents, for all tests of a module."""
    need_mosquitto()
    broker = BrokerUnderTest(home / "mosquitto")
    broker.start()
    system = System(broker, home)
    try:
        system.start()
        for _ in range(agents):
            system.agent(*flags)
        yield system
    finally:
        system.stop()
        broker.stop()


@pytest.fixture
def system(fresh_mosquitto: BrokerUnderTest, tmp_path: Path) -> Iterator[System]:
    system = System(fresh_mosquitto, tmp_path)
    yield system
    system.stop()
