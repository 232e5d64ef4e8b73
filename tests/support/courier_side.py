"""One party's courier on a bench: its connection is a list that a test empties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bus.connection_policy import DESK, ConnectionPolicy
from bus.courier import Courier
from bus.inbound_frames import REASSEMBLY_NBYTES
from bus.link import Link
from bus.pending_publishes import PendingPublishes
from bus.sending_rate import SendingRate
from wire.elements import Element
from wire.errors import CrowdpipeError
from wire.frame_head import FrameHead, FrameSettings
from wire.frames import Frame, attempt_of, encode_frame, encode_tensor
from wire.ids import ActivationId
from wire.outbox import Message
from wire.parts import Credit, Part, decode, encode_part, pieces_of
from wire.topics import Topics

TOPICS = Topics()
PACKET_NBYTES = 8 << 10  # so that a part has 4 KiB
Keep = Callable[[str, FrameHead, bytes], None]


def name(item: int = 0, run: str = "run") -> ActivationId:
    return ActivationId(run, item, 1)


def frame(item: int = 0, nbytes: int = 100, run: str = "run", attempt: int = 0) -> bytes:
    tensor = encode_tensor("t", Element.UINT8, (nbytes,), bytes(nbytes), "raw")
    return encode_frame(Frame("a" * 64, name(item, run), attempt, FrameSettings(), (tensor,)))


@dataclass
class KeptFrame:
    """A source that counts how often it is read; None once it was let go."""

    data: bytes | None
    loads: int = 0

    def measure(self) -> tuple[int, int] | None:
        return None if self.data is None else (len(self.data), attempt_of(self.data))

    def load(self) -> bytes | None:
        self.loads += 1
        return self.data


@dataclass
class Side:
    """`publish` is what it hands to the connection. What comes is in `kept`, unless `full`."""

    who: str
    bound_nbytes: int = REASSEMBLY_NBYTES
    policy: ConnectionPolicy = DESK
    packet_nbytes: int | None = PACKET_NBYTES
    held_nbytes: int = 0
    full: CrowdpipeError | None = None
    kept: list[bytes] = field(default_factory=list)
    arrived: list[tuple[str, FrameHead]] = field(default_factory=list)
    lost: list[tuple[str, ActivationId, str]] = field(default_factory=list)
    given_up: list[tuple[str, ActivationId, str]] = field(default_factory=list)
    wakes: int = 0

    def __post_init__(self) -> None:
        self.link = Link()
        self.pending = PendingPublishes(self.policy, SendingRate(self.link), None)
        self.courier = Courier(
            TOPICS, self.who, self, self, bound_nbytes=self.bound_nbytes, link=self.link
        )
        self.courier.join(self.pending.put, self._woken)
        self._mid = 0
        self.connect()

    def connect(self, packet_nbytes: int | None = None) -> None:
        self.pending.connected(65_535)
        self.courier.connected(packet_nbytes or self.packet_nbytes)

    @property
    def published(self) -> int:
        """How many messages it has published; the last has that packet identifier."""
        return self._mid

    def disconnect(self) -> None:
        self.pending.disconnected()
        self.courier.disconnected()

    def _woken(self) -> None:
        self.wakes += 1

    # --- what the courier asks and tells ------------------------------------------------------

    def keep(self, sender: str, header: FrameHead, frame: bytes) -> None:
        if self.full is not None:
            raise self.full
        self.kept.append(frame)

    def frame_arrived(self, sender: str, header: FrameHead) -> None:
        self.arrived.append((sender, header))

    def frame_lost(self, sender: str, activation: ActivationId, error: CrowdpipeError) -> None:
        self.lost.append((sender, activation, error.kind))

    def frame_given_up(self, to: str, activation: ActivationId, error: CrowdpipeError) -> None:
        self.given_up.append((to, activation, error.kind))

    # --- what a test does ---------------------------------------------------------------------

    def send(
        self, to: str, item: int, nbytes: int, attempt: int = 0, run: str = "run"
    ) -> KeptFrame:
        source = KeptFrame(frame(item, nbytes, run, attempt))
        self.courier.send(to, name(item, run), source)
        return source

    def publish(self, limit: int = 1000, acknowledge: bool = True) -> list[Message]:
        """As the connection does: frames leave their source one at a time."""
        out: list[Message] = []
        while len(out) < limit:
            numbered = self.pending.take()
            if numbered is None:
                if not (self.pending.roomy and self.courier.fill()):
                    break
                continue
            self._mid += 1
            self.pending.published(self._mid, numbered, 0.0)
            out.append(numbered.message)
            if acknowledge:
                self.acknowledge(self._mid)
        return out

    def acknowledge(self, mid: int) -> None:
        message = self.pending.acknowledged(mid, 0.0)
        if message is not None and not message.control:
            self.courier.acknowledged(message)

    def take(self, sender: str, messages: list[Message]) -> None:
        for each in messages:
            assert each.topic == TOPICS.data(self.who, sender)
            self.courier.received(each.topic, each.payload)

    def receive(self, sender: str, *parts: Part) -> None:
        for part in parts:
            self.courier.received(TOPICS.data(self.who, sender), encode_part(part))


def parts_in(messages: list[Message]) -> list[Part]:
    return [part for part in said_in(messages) if isinstance(part, Part)]


def said_in(messages: list[Message]) -> list[Part | Credit]:
    return [decode(piece) for each in messages for piece in pieces_of(each.payload)]


def credits_in(messages: list[Message]) -> list[Credit]:
    return [credit for credit in said_in(messages) if isinstance(credit, Credit)]


def exchange(sender: Side, reader: Side) -> int:
    """Until both are silent; the most parts that were under way at once."""
    most = 0
    while published := sender.publish():
        most = max(most, len(published))
        reader.take(sender.who, published)
        sender.take(reader.who, reader.publish())
    return most
