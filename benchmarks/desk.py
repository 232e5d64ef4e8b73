"""An orchestrator's seat with a person in it: gives real agents exactly the partitions that a
figure is about, and inputs of any cut, over a real broker and store.

For what the orchestrator would choose by itself see `fleet`. One client of the broker; what it
hears is kept until it is asked for. Every wait has a limit.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.subscribeoptions import SubscribeOptions

from benchmarks.happenings import Happenings
from benchmarks.work import Work
from broker_config.credentials import Credentials
from broker_config.mosquitto import MosquittoBroker
from bus.broker_socket import tune
from crowdpipe.client.arrays import decode_array, encode_array
from crowdpipe.items_file import Arrays
from crowdpipe.serving.agents import AgentSpec, LocalAgents
from model_store.server import StoreServer
from wire.broker_url import BrokerUrl
from wire.errors import BrokerUnreachable, TimedOut, from_kind
from wire.frame_head import FrameSettings
from wire.frames import Frame, decode_frame, encode_frame
from wire.ids import ActivationId, PartitionId
from wire.manifest import Manifest
from wire.messages.assignment import Assignment, PartitionAssignment, Route, SegmentRef
from wire.messages.commands import Acknowledge, CommandBatch, Release
from wire.messages.events import EventBatch, PartitionLoaded, TaskDone, TaskFailed
from wire.messages.residency import PartitionResidency, Residency
from wire.messages.state import DeviceState
from wire.parts import (
    PART_NBYTES,
    Credit,
    Transfer,
    encode_credit,
    encode_part,
    pieces_of,
    split,
)
from wire.parts import decode as read_piece
from wire.planes import Buffer
from wire.reassembly import Reassembly
from wire.record import decode, encode
from wire.topics import ORCHESTRATOR, Topics

LIMIT_S = 120.0
GENERATION = 1
LARGEST_FRAME_NBYTES = 1 << 30
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Span:
    """Segments `first` to `last`, `last` included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A partition in memory. Seconds from handing the assignment to the broker."""

    after_s: float
    loaded: PartitionLoaded


class Desk:
    """Broker and store run inside a `with`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stack = ExitStack()
        self._topics = Topics()
        self._revisions = itertools.count(1)
        self._items = itertools.count()
        self._changed = threading.Condition()
        self._states: dict[str, DeviceState] = {}
        self._residencies: dict[str, Residency] = {}
        self._frames: dict[ActivationId, Frame] = {}
        self._reassembly = Reassembly(LARGEST_FRAME_NBYTES)
        self.happenings = Happenings()
        self.store: StoreServer
        self._credentials: Credentials
        self._broker: MosquittoBroker
        self._client: paho.Client

    def __enter__(self) -> Desk:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        self._credentials = Credentials(self._home)
        self._credentials.add(ORCHESTRATOR, "orchestrator")
        self._broker = MosquittoBroker(self._home, self._credentials)
        stack.callback(self._broker.stop)
        self._broker.start()
        self.store = StoreServer(self._home / "store", authorise=self._credentials.verify)
        self.store.start()
        stack.callback(self.store.stop)
        self._connect(stack)

    def _connect(self, stack: ExitStack) -> None:
        url = self._broker.url_for(ORCHESTRATOR)
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id="desk", protocol=MQTTProtocolVersion.MQTTv5
        )
        self._client.username_pw_set(url.user, url.secret)
        self._client.max_inflight_messages_set(1000)
        self._client.on_socket_open = lambda _client, _data, link: tune(link)
        self._client.on_message = self._hear
        try:
            self._client.connect(url.host, url.port, clean_start=True)
        except OSError as error:
            raise BrokerUnreachable(f"no broker answers at {url.shown}: {error}") from None
        self._client.loop_start()
        stack.callback(self._client.loop_stop)
        stack.callback(self._client.disconnect)
        names = ("device_state", "residency", "events")
        filters = [self._topics.subscription(name) for name in names]
        filters.append(self._topics.inbox(ORCHESTRATOR))
        self._client.subscribe([(each, SubscribeOptions(qos=1)) for each in filters])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    # --- models and agents --------------------------------------------------------------------

    def cut(self, work: Work, cut_after: tuple[str, ...] | None = None) -> Manifest:
        """The model's segments in the store, cut as usual or only where it is said."""
        from orchestrator.segmentation.options import SegmentOptions
        from orchestrator.segmentation.segmenter import segment

        options = SegmentOptions(max_shape=work.max_shape, cut_after=cut_after)
        return segment(work.model, work.name, self.store.blobs.put, options=options)

    @contextmanager
    def agent(self, name: str, memory_nbytes: int) -> Iterator[int]:
        """An agent that is online; its process id. It keeps its cache from one life to the
        next."""
        if self._credentials.get(name) is None:
            self._credentials.add(name, "device")
            self._broker.reload()
        spec = AgentSpec(name, self._broker.url_for(name), memory_nbytes)
        with self._changed:
            self._states.pop(name, None)
            self._residencies.pop(name, None)
        with LocalAgents([spec], self._home / "agents", "warning") as agents:
            self._await(lambda: self._online(name, agents), f"agent {name} to come online")
            yield agents.pids[name]
            self.assign(name, [])

    def _online(self, name: str, agents: LocalAgents) -> bool:
        agents.check()
        state = self._states.get(name)
        return state is not None and state.status == "online"

    def login(self, name: str) -> BrokerUrl:
        """The address and secret of a device that was started once."""
        return self._broker.url_for(name)

    def folder(self, name: str) -> Path:
        """Where an agent keeps what it was given."""
        return self._home / "agents" / name / "cache"

    # --- giving partitions --------------------------------------------------------------------

    def assign(
        self,
        device: str,
        partitions: Sequence[PartitionAssignment],
        store_base: str | None = None,
    ) -> None:
        """Outputs come to the desk. `store_base`: another way to the store."""
        routes = [
            Route(each.partition.model, each.partition.exact, each.partition.cut, (ORCHESTRATOR,))
            for each in partitions
        ]
        base = store_base or f"http://:{self.store.port}"
        said = Assignment(GENERATION, next(self._revisions), base, tuple(partitions), tuple(routes))
        topic = self._topics.device(device, "assignment")
        self._client.publish(topic, encode(said), qos=1, retain=True)

    def load(self, device: str, given: PartitionAssignment, store_base: str | None = None) -> Ready:
        """Assign this alone and wait until it is in memory.

        Raises what the device refuses it with, such as `OverBudget`.
        """
        mark, begun = self.happenings.mark(), time.monotonic()
        with self._changed:
            self._residencies.pop(device, None)
        self.assign(device, [given], store_base)
        loaded = self._await(
            lambda: self._loaded(device, given.partition, mark), f"{given.partition} to be loaded"
        )
        return Ready(loaded.at_s - begun, loaded)

    def _loaded(self, device: str, partition: PartitionId, mark: int) -> PartitionLoaded | None:
        refused = self._residency(device, partition)
        if refused is not None and refused.failure is not None:
            raise from_kind(refused.failure.kind, f"{device}: {refused.failure.reason}")
        events = (event for name, event in self.happenings.since(mark) if name == device)
        return next(
            (e for e in events if isinstance(e, PartitionLoaded) and e.partition == partition), None
        )

    def _residency(self, device: str, partition: PartitionId) -> PartitionResidency | None:
        told = self._residencies.get(device)
        entries = told.partitions if told is not None else ()
        return next((each for each in entries if each.partition == partition), None)

    def unload(self, device: str) -> None:
        """Take everything from a device, and wait until it says so."""
        self.assign(device, [])
        self._await(
            lambda: device in self._residencies and not self._residencies[device].partitions,
            f"{device} to give up what it has",
        )

    # --- computing ----------------------------------------------------------------------------

    def compute(
        self, device: str, manifest: Manifest, span: Span, values: Arrays
    ) -> tuple[Arrays, TaskDone]:
        """One item through a partition that the device was assigned: the live set at its end, and
        what the device tells of the task. `values` has the live set at its beginning.

        Raises `ComputeFailed` or what else the device fails with, `TimedOut` at the limit.
        """
        at = ActivationId("bench", next(self._items), span.first)
        mark = self.happenings.mark()
        self._send(device, manifest, at, values)
        wanted = ActivationId(at.run, at.item, span.last + 1)
        frame = self._await(lambda: self._frame(device, wanted, mark), f"output {wanted}")
        done = self._await(lambda: self._done(device, wanted, mark), f"what {device} tells of it")
        self._release(device, wanted)
        return {tensor.name: decode_array(tensor) for tensor in frame.tensors}, done

    def _frame(self, device: str, wanted: ActivationId, mark: int) -> Frame | None:
        for name, event in self.happenings.since(mark):
            if isinstance(event, TaskFailed) and name == device:
                raise from_kind(event.kind, event.reason)
        return self._frames.pop(wanted, None)

    def _done(self, device: str, wanted: ActivationId, mark: int) -> TaskDone | None:
        events = (event for name, event in self.happenings.since(mark) if name == device)
        return next((e for e in events if isinstance(e, TaskDone) and e.task.makes == wanted), None)

    def _send(self, device: str, manifest: Manifest, at: ActivationId, values: Arrays) -> None:
        tensors = tuple(
            encode_array(spec.name, spec.kind, values[spec.name], "raw")
            for spec in manifest.cuts[at.cut].tensors
        )
        frame = encode_frame(Frame(manifest.digest, at, 0, FrameSettings(), tensors))
        for part in split(Transfer(at, 0), frame, PART_NBYTES):
            topic = self._topics.data(device, ORCHESTRATOR)
            self._client.publish(topic, encode_part(part), qos=1)

    def _release(self, device: str, output: ActivationId) -> None:
        command = Release(output.run, output.cut, (output.item,))
        self._command(device, CommandBatch(GENERATION, (command,)))

    def _command(self, device: str, batch: CommandBatch) -> None:
        self._client.publish(self._topics.device(device, "commands"), encode(batch), qos=1)

    # --- hearing ------------------------------------------------------------------------------

    def _await(self, found: Callable[[], Found | None], what: str) -> Found:
        deadline = time.monotonic() + LIMIT_S
        with self._changed:
            while not (value := found()):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut(f"waited {LIMIT_S:g} s for {what}")
                self._changed.wait(min(left, 1.0))
            return value

    def _hear(self, _client: paho.Client, _user: object, message: paho.MQTTMessage) -> None:
        payload = bytes(message.payload)
        with self._changed:
            if self._topics.is_data(message.topic):
                _, sender = self._topics.sender(message.topic)
                for piece in pieces_of(payload):
                    self._hear_piece(sender, piece)
            elif payload:
                self._hear_word(message.topic, payload)
            self._changed.notify_all()

    def _hear_word(self, topic: str, payload: bytes) -> None:
        parsed = self._topics.parse(topic)
        device = parsed.variables["d"]
        if parsed.name == "device_state":
            self._states[device] = decode(DeviceState, payload)
        elif parsed.name == "residency":
            self._residencies[device] = decode(Residency, payload)
        elif parsed.name == "events":
            self.happenings.hear(topic, payload)
            batch: EventBatch = decode(EventBatch, payload)
            heard = Acknowledge(batch.boot, batch.last_seq)
            self._command(device, CommandBatch(GENERATION, (heard,)))

    def _hear_piece(self, sender: str, payload: Buffer) -> None:
        piece = read_piece(payload)
        if isinstance(piece, Credit):
            return
        whole = self._reassembly.add(sender, piece, time.monotonic())
        if piece.count > 1:
            credit = encode_credit(Credit(piece.transfer, piece.index, piece.count))
            self._client.publish(self._topics.data(sender, ORCHESTRATOR), credit, qos=0)
        if whole is not None:
            frame = decode_frame(bytes(whole), LARGEST_FRAME_NBYTES)
            self._frames[frame.activation] = frame


def given(manifest: Manifest, span: Span, exact: bool = False) -> PartitionAssignment:
    """The assignment of these segments, all of whose bytes may be missing."""
    partition = PartitionId(manifest.digest, exact, span.first, span.last)
    segments = tuple(map(SegmentRef.of, manifest.segments[span.first : span.last + 1]))
    return PartitionAssignment(
        partition=partition,
        model_name=manifest.name,
        tier=3,
        segments=segments,
        accepts_nbytes=manifest.cuts[span.first].bound_nbytes,
        emits=manifest.cuts[span.last + 1].names,
        emits_nbytes=manifest.cuts[span.last + 1].bound_nbytes,
    )
