"""What the broker, the courier and the store tell, as the machine's events.

Runs in the adapters' threads and decides nothing. Bytes from the network are decoded here and
refused with a log line when they are not what the format says: a malformed message must neither
end the orchestrator nor be believed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from bus.arrived_frames import ArrivedFrames
from bus.listener import InboundMessage
from orchestrator.adapters.journal import Journal
from orchestrator.machine.devices.residencies import is_likely
from orchestrator.machine.records.events import (
    AssignmentSeen,
    Connected,
    DeviceStateSeen,
    Disconnected,
    EventsArrived,
    FrameLost,
    GenerationRaised,
    InputArrived,
    ModelAdded,
    ModelRemoved,
    RequestArrived,
    ResidencySeen,
    ResultArrived,
    TelemetrySeen,
)
from orchestrator.shell.busy_answers import BusyAnswers
from orchestrator.shell.mailbox import Mailbox
from wire.errors import CrowdpipeError, Refused, Replaced
from wire.frame_head import FrameHead
from wire.ids import ActivationId, check_name
from wire.manifest import Manifest
from wire.messages.assignment import FormerAssignment
from wire.messages.events import EventBatch
from wire.messages.requests import REQUEST_NBYTES, Request, Response
from wire.messages.residency import Residency
from wire.messages.state import DeviceState, OrchestratorState, Status
from wire.messages.telemetry import Telemetry
from wire.outbox import Message
from wire.record import decode, encode
from wire.topics import JSON_CONTENT_TYPE, Topics, client_party, is_client
from wire.versions import OURS

_log = logging.getLogger("crowdpipe.orchestrator")


class Inbound:
    """The listener of connection, courier and store watch in one.

    `failure` is why it cannot go on. `respond` says something to a party. `sign` makes an order of
    what we say of ourselves, which devices act upon. `online` and
    `models_known` are set once connected and once the store was read.
    """

    def __init__(
        self, mailbox: Mailbox, topics: Topics, journal: Journal, boot: str, version: str
    ) -> None:
        self._mailbox = mailbox
        self._topics = topics
        self._journal = journal
        self._boot = boot
        self._version = version
        self._other: OrchestratorState | None = None
        self._connection = ""
        self.frames = ArrivedFrames()
        self.respond: Callable[[str, Response], None] = lambda party, response: None
        self._busy_answers = BusyAnswers(lambda party, response: self.respond(party, response))
        self.sign: Callable[[Message], Message] = lambda said: said
        self.versions = OURS
        self.store_base = ""
        self.generation = 0
        self.failure: CrowdpipeError | None = None
        self.last_fault: dict[str, str] = {}
        self.online = threading.Event()
        self.models_known = threading.Event()
        self._readers: dict[str, Callable[[dict[str, str], InboundMessage], None]] = {
            "device_state": self._device_state,
            "telemetry": self._telemetry,
            "residency": self._residency,
            "assignment": self._assignment,
            "events": self._events,
            "requests": self._requests,
            "orchestrator_state": self._orchestrator_state,
        }

    # --- the connection -----------------------------------------------------------------------

    def will(self, connection: str) -> Message:
        self._other = None
        return self.state_message("offline", connection)

    def farewell(self) -> Message:
        return self.state_message("offline", self._connection)

    def state_message(self, status: Status, connection: str) -> Message:
        state = OrchestratorState(
            status=status,
            connection=connection,
            boot=self._boot,
            generation=self.generation,
            version=self._version,
            wire_version=self.versions.newest,
            oldest_wire_version=self.versions.oldest,
            store_base=self.store_base,
        )
        said = Message(
            topic=self._topics.orchestrator_state,
            payload=encode(state),
            retain=True,
            content_type=JSON_CONTENT_TYPE,
        )
        return self.sign(said)

    def connected(self, connection: str, reconnect: bool) -> None:
        other = self._other
        if reconnect and other is not None and other.status == "online":
            self.ended(_replaced())
            return
        self._connection = connection
        self.last_fault.pop("broker", None)
        if other is not None and self._outranks_us(other):
            self._rise_then_connect(other.generation, connection)
        else:
            self._come_online(connection)

    def _outranks_us(self, other: OrchestratorState) -> bool:
        if is_likely(other.generation, self.generation):
            return other.generation >= self.generation
        _log.warning("generation %d of an orchestrator is not believed", other.generation)
        return False

    def _rise_then_connect(self, above: int, connection: str) -> None:
        """An orchestrator before us, of another journal, was further: be above it at once."""

        def raised(generation: int | None, error: CrowdpipeError | None) -> None:
            if generation is None:
                self.ended(error or Refused("the generation could not be raised"))
                return
            self.raised(generation)
            self._come_online(connection)

        self._journal.raise_generation(above, raised)

    def raised(self, generation: int) -> None:
        self.generation = max(generation, self.generation)
        self._mailbox.answer(GenerationRaised(generation))

    def _come_online(self, connection: str) -> None:
        self._mailbox.put(Connected(connection))
        self.online.set()

    def disconnected(self, reason: str) -> None:
        if self.online.is_set() or self.last_fault.get("broker") != reason:
            _log.warning("not connected: %s", reason)
        self.last_fault["broker"] = reason
        self.online.clear()
        self._mailbox.put(Disconnected(reason))

    def received(self, message: InboundMessage) -> None:
        try:
            parsed = self._topics.parse(message.topic)
            if message.payload:  # else somebody cleared what was retained
                self._readers[parsed.name](parsed.variables, message)
        except CrowdpipeError as error:
            _log.warning("refused a message on %s: %s", message.topic, error)

    def refused(self, topic: str, error: CrowdpipeError) -> None:
        """What we may not say at all ends us. A client's or device's own topics may be refused
        because it is not known to the broker any more: it will not miss them."""
        if topic == self._topics.orchestrator_state:
            self.ended(Refused(f"{error}; connect with the orchestrator's own user"))
        else:
            _log.error("%s", error)

    def ended(self, error: CrowdpipeError) -> None:
        self.failure = self.failure or error
        self._mailbox.wake()

    # --- control messages ---------------------------------------------------------------------

    def _device_state(self, names: dict[str, str], message: InboundMessage) -> None:
        state = decode(DeviceState, message.payload)
        self._put(DeviceStateSeen(_device(names), state, message.retained))

    def _telemetry(self, names: dict[str, str], message: InboundMessage) -> None:
        telemetry = decode(Telemetry, message.payload)
        self._put(TelemetrySeen(_device(names), telemetry, message.retained))

    def _residency(self, names: dict[str, str], message: InboundMessage) -> None:
        residency = decode(Residency, message.payload)
        self._put(ResidencySeen(_device(names), residency, message.retained))

    def _assignment(self, names: dict[str, str], message: InboundMessage) -> None:
        """Only what was there before us tells anything; the rest are our own words."""
        if message.retained:
            found = decode(FormerAssignment, message.payload)
            listed = tuple(each.partition for each in found.partitions)
            self._put(AssignmentSeen(_device(names), found.generation, listed))

    def _events(self, names: dict[str, str], message: InboundMessage) -> None:
        self._put(EventsArrived(_device(names), decode(EventBatch, message.payload)))

    def _requests(self, names: dict[str, str], message: InboundMessage) -> None:
        party = client_party(names["u"], names["s"])
        if self._mailbox.has_room_for_request(party):
            request = decode(Request, message.payload, REQUEST_NBYTES)
            self._mailbox.put_request(RequestArrived(party, request))
        else:
            self._busy_answers.refuse(party, message.payload, time.monotonic())

    def _orchestrator_state(self, names: dict[str, str], message: InboundMessage) -> None:
        state: OrchestratorState = decode(OrchestratorState, message.payload)
        if state.boot == self._boot:
            return
        if message.retained:
            self._other = state
        elif state.status == "online" and state.generation > self.generation:
            self.ended(_replaced())

    def _put(self, event: Any) -> None:
        self._mailbox.put(event)

    # --- the courier --------------------------------------------------------------------------

    def frame_arrived(self, sender: str, header: FrameHead) -> None:
        if is_client(sender):
            if not self._mailbox.put_input(InputArrived(sender, header)):
                self.frames.drop_latest(header.activation)  # its client sends it again
                _log.warning("too many inputs of %s wait; one was dropped", sender)
        else:
            self._mailbox.put(ResultArrived(sender, header))

    def frame_lost(self, sender: str, activation: ActivationId, error: CrowdpipeError) -> None:
        lost = FrameLost(sender, activation, error.kind, error.reason)
        if is_client(sender):
            self._mailbox.put_input(lost)  # without room, its client asks after it
        else:
            self._mailbox.put(lost)

    def frame_given_up(self, to: str, activation: ActivationId, error: CrowdpipeError) -> None:
        """Nothing to do: who misses it asks for it."""

    # --- the store ----------------------------------------------------------------------------

    def model_added(self, manifest: Manifest) -> None:
        _log.info("model %s: %d segments", manifest.name, len(manifest.segments))
        self._mailbox.put(ModelAdded(manifest))

    def model_removed(self, name: str) -> None:
        _log.info("model %s was removed", name)
        self._mailbox.put(ModelRemoved(name))

    def model_replaced(self, name: str) -> None:
        _log.info("model %s was replaced", name)
        self._mailbox.put(ModelRemoved(name, replaced=True))

    def store_read(self) -> None:
        self.last_fault.pop("store", None)
        self.models_known.set()

    def store_failed(self, error: CrowdpipeError) -> None:
        self.last_fault["store"] = error.reason


def _device(names: dict[str, str]) -> str:
    return check_name(names["d"], "device name")


def _replaced() -> Replaced:
    return Replaced(
        "another orchestrator took over this broker; run only one, or give each its own topics"
    )
