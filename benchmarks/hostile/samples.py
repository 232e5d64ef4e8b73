"""Messages as they should be, on every topic that a device and a client may write.

What is sent are these with something wrong (`malformations`). They speak of the model that is
served and, by `RUN`, of a run that is under way: of somebody else's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.crowd.device import connection_of, residency_of, state_of, telemetry_of
from wire.elements import Element
from wire.frame_head import FrameSettings
from wire.frames import Frame, encode_frame, encode_tensor
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages.events import (
    DeviceEvent,
    EventBatch,
    FrameDropped,
    FrameReceived,
    Inventory,
    PartitionLoaded,
    Pong,
    Profiled,
    TaskDone,
    TaskFailed,
    TaskStarted,
)
from wire.messages.requests import (
    AcknowledgeResults,
    CancelRun,
    Finish,
    Renew,
    Request,
    RequestPlan,
    Resume,
    Submit,
)
from wire.messages.state import DeviceState
from wire.parts import Credit, Part, Transfer, encode_bundle, encode_credit, encode_part, split
from wire.record import encode
from wire.topics import ORCHESTRATOR, Topics, client_party

TOPICS = Topics()
RUN = "feedfacecafebeef"  # replaced by the id of a run that goes on
CONNECTION = connection_of("liar", 1)
BOOT = "boot-of-liar"
ANNOUNCED_NBYTES = 256 << 20
UNENDED_NBYTES = 2 << 10
VALUES = 128  # in a made-up activation


@dataclass(frozen=True, slots=True)
class Target:
    """Whom it is about: `devices` serve the model of this digest in `segments` segments."""

    model: str
    segments: int
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """`retain` and `qos` as the table of topics says."""

    topic: str
    payload: bytes
    retain: bool = False
    qos: int = 1

    @property
    def is_json(self) -> bool:
        return self.payload[:1] == b"{"


def of_device(user: str, target: Target) -> list[Message]:
    """All that a device may say, and frames for each reader there is and for one there is not."""
    kept = {
        "state": encode(_birth()),
        "residency": encode(residency_of(CONNECTION)),
    }
    said = [Message(TOPICS.device(user, leaf), body, True) for leaf, body in kept.items()]
    readings = encode(telemetry_of(0, CONNECTION, 1.0))
    said.append(Message(TOPICS.device(user, "telemetry"), readings, True, 0))
    for event in _events(target):
        batch = EventBatch(BOOT, CONNECTION, 1, (event,))
        said.append(Message(TOPICS.device(user, "events"), encode(batch)))
    for reader in (*target.devices, ORCHESTRATOR, "nobody-here"):
        topic = TOPICS.data(reader, user)
        said += [Message(topic, payload, False) for payload in _pieces(target)]
    return said


def of_client(user: str, session: str, target: Target) -> list[Message]:
    """All requests, about another's run; inputs and what else is no input."""
    party = client_party(user, session)
    topic = TOPICS.client(party, "requests")
    said = [Message(topic, encode(request)) for request in _requests()]
    data = TOPICS.data(ORCHESTRATOR, party)
    return said + [Message(data, payload) for payload in _pieces(target)]


def _birth() -> DeviceState:
    """It knows no operator, so that it is given no place, whatever else is wrong with it."""
    born = state_of(0, CONNECTION)
    assert born.capabilities is not None
    return replace(born, capabilities=replace(born.capabilities, max_opset=1))


def _events(target: Target) -> Iterator[DeviceEvent]:
    task, partition = TaskId(RUN, 0, 0, target.segments - 1), _partition(target)
    made = ActivationId(RUN, 1, target.segments)
    yield FrameReceived(ActivationId(RUN, 0, 0), ORCHESTRATOR, 1_000, 1.0)
    yield TaskStarted(task, 1.0)
    yield TaskDone(task, 1.0, 0.1, 0.1, 0.1, 0.1, 1_000, 1_000, 1_000, to=ORCHESTRATOR)
    yield TaskFailed(task, "compute_failed", "no reason at all")
    yield FrameDropped(ActivationId(RUN, 2, 1), "no_room", "no reason at all")
    yield PartitionLoaded(partition, 1, False, 1.0, 0.0, 0, 0.1, 1 << 26, 1 << 25)
    yield Inventory(1, 1, (made,), (ActivationId(RUN, 3, 0),), None, (target.model,), ())
    yield Pong("nonce", 1.0)
    yield Profiled(partition, (0.1,) * target.segments)


def _partition(target: Target) -> PartitionId:
    return PartitionId(target.model, True, 0, target.segments - 1)


def _requests() -> Iterator[Request]:
    yield Submit(RUN, "no-such-model", count=3)
    yield Submit("deadbeefdeadbeef", "no-such-model", attached=4)
    yield Finish(RUN, 1)
    yield CancelRun(RUN)
    yield AcknowledgeResults(RUN, tuple(range(60)))
    yield Resume(RUN)
    yield Renew((RUN,))
    yield RequestPlan("plan-1", "no-such-model", items=1)


def _whole(target: Target, at: ActivationId) -> Part:
    frame = _frame(target, at)
    return Part(Transfer(at, 9), 0, 1, len(frame), frame)


def _pieces(target: Target) -> Iterator[bytes]:
    """Frames whole, together and in part, credits, and parts that announce what never comes."""
    for cut in sorted({0, 1, target.segments // 2, target.segments}):
        yield encode_bundle([_whole(target, ActivationId(RUN, item, cut)) for item in (2, 3, 4)])
        for item in (0, 7):
            at = ActivationId(RUN, item, cut)
            frame = _frame(target, at)
            yield from map(encode_part, split(Transfer(at, 9), frame, len(frame)))
            unended = Part(Transfer(at, 9), 0, 2, len(frame) * 2, frame[:UNENDED_NBYTES])
            yield encode_part(unended)
    at = Transfer(ActivationId(RUN, 1, 1), 1)
    yield encode_part(Part(at, 0, 2, ANNOUNCED_NBYTES, b"x"))
    yield encode_part(Part(at, 40_000, 65_536, 1 << 50, b"x" * 64))
    yield encode_credit(Credit(at, 0, 2))


def _frame(target: Target, at: ActivationId) -> bytes:
    """Shaped like nothing that the model has."""
    values = struct.pack(f"<{VALUES}f", *range(VALUES))
    tensor = encode_tensor("hidden", Element.FLOAT, (1, VALUES), values)
    return encode_frame(Frame(target.model, at, 9, FrameSettings(exact=True), (tensor,)))
