"""A device that is told to do nothing, and speaks all the same: of items, cuts and tasks that are
not its own, with values that are wrong. The broker lets it: it writes its own topics alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tests.simulation.clockwork import Clockwork
from tests.simulation.network import Broker, Message
from tests.simulation.virtual_courier import VirtualCourier
from tests.simulation.virtual_executor import FRAME_NBYTES, FRAME_RAW_NBYTES
from wire import record
from wire.frame_head import FrameHead
from wire.ids import ActivationId, TaskId
from wire.manifest import Manifest
from wire.messages import events as dev
from wire.messages.events import DeviceEvent, EventBatch
from wire.messages.state import DeviceState
from wire.parts import Transfer, encode_part, split

NAME, BOOT, CONNECTION, WRONG = "liar", "liar-boot", "liar-c", "a lie"
LIES = ("frame", "torn", "received", "started", "done", "failed", "dropped", "inventory")
HIGH = 10_000_000  # an attempt above any


class Surroundings(Protocol):
    clock: Clockwork
    broker: Broker
    manifest: Manifest
    part_nbytes: int | None


class Liar:
    """Says that it is there, without any capability: no plan may use it."""

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.courier = VirtualCourier(world.clock, self, world.part_nbytes)
        self.seq = 0
        self.tell: dict[str, Callable[[ActivationId, int], DeviceEvent]] = {
            "received": lambda at, last: dev.FrameReceived(at, NAME, FRAME_NBYTES, 0.0),
            "started": lambda at, last: dev.TaskStarted(_task(at, last), 0.0),
            "done": lambda at, last: dev.TaskDone(
                _task(at, last), 0.0, 0.0, 0.0, 1e-6, 0.0, 1, 1, 1
            ),
            "failed": lambda at, last: dev.TaskFailed(_task(at, last), "compute_failed", WRONG),
            "dropped": lambda at, last: dev.FrameDropped(at, "early", WRONG),
        }

    def lie(self, what: str, at: ActivationId, to: str, last: int, exact: bool) -> None:
        """`last` is the model's last segment; frames go `to` an agent, or home as results."""
        self._be_there()
        if what in ("frame", "torn"):
            head = self._head(at, exact)
            (self._send if what == "frame" else self._tear)(to, head)
        elif what == "inventory":
            self._say(self._inventory(at, last))
        else:
            self._say(self.tell[what](at, last))

    def _head(self, at: ActivationId, exact: bool) -> FrameHead:
        return FrameHead(
            self.world.manifest.digest,
            at,
            HIGH,
            exact=exact,
            barrier=False,
            nbytes=FRAME_NBYTES,
            raw_nbytes=FRAME_RAW_NBYTES,
        )

    def _send(self, to: str, head: FrameHead) -> None:
        self.courier.send(to, head, WRONG)

    def _tear(self, to: str, head: FrameHead) -> None:
        """The first part of a frame that never comes whole."""
        parts = list(split(Transfer(head.activation, head.attempt), b"x" * 400, 150))
        self.say(to, encode_part(parts[0]))

    def _inventory(self, at: ActivationId, last: int) -> dev.Inventory:
        cuts = [replace(at, cut=cut) for cut in range(last + 2)]
        running = _task(at, last)
        return dev.Inventory(0, 0, tuple(cuts), tuple(cuts), running, (), ())

    def _be_there(self) -> None:
        broker = self.world.broker
        if not broker.is_online(NAME):
            broker.connect(NAME, self._receive, clean=True)
            self.courier.connected()
        state = DeviceState("online", CONNECTION, BOOT, "0", 1, None)
        broker.publish(NAME, f"state/{NAME}", record.encode(state), keep=True)

    def _say(self, event: DeviceEvent) -> None:
        self.seq += 1
        batch = EventBatch(BOOT, CONNECTION, self.seq, (event,), gone=self.seq - 1)
        self.world.broker.publish(NAME, f"events/{NAME}", record.encode(batch))

    def _receive(self, message: Message) -> None:
        if message.kind == "data" and message.payload is not None:
            self.courier.receive(*message.payload)

    # the courier's owner

    def say(self, to: str, payload: bytes) -> None:
        self.world.broker.publish(NAME, f"data/{to}", (NAME, payload))

    def take(self, sender: str, head: FrameHead, value: str) -> None:
        """Nobody sends it anything that it uses."""

    def lose(self, sender: str, activation: ActivationId, kind: str, reason: str) -> None:
        """It does not care."""


def _task(at: ActivationId, last: int) -> TaskId:
    return TaskId(at.run, at.item, at.cut, max(at.cut, last), HIGH)
