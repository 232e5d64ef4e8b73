"""What there is: models and devices, as their retained messages say, and plans.

A look, not a watch: connects, reads what is retained, disconnects. What is retained proves no
life: a device that says `online` may be gone until its broker notices.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any

from bus.connection import Connection
from bus.listener import InboundMessage, Subscription
from crowdpipe.client import events as ev
from crowdpipe.client.line import CONNECT_LIMIT_S, Line
from crowdpipe.client.unreachable import unreachable
from crowdpipe.home import broker_url
from wire.broker_url import BrokerUrl
from wire.errors import CrowdpipeError
from wire.ids import mint
from wire.messages.assignment import Assignment
from wire.messages.model import ModelSummary
from wire.messages.requests import Planned, RunOptions
from wire.messages.residency import Residency
from wire.messages.state import DeviceState, OrchestratorState
from wire.messages.telemetry import Telemetry
from wire.outbox import Message
from wire.record import decode
from wire.topics import Topics
from wire.transport import Transport
from wire.versions import mismatch

QUIET_S = 0.15  # retained messages follow each other closely
PLAN_LIMIT_S = 30.0
_LEAVES: dict[str, Any] = {
    "device_state": DeviceState,
    "telemetry": Telemetry,
    "residency": Residency,
    "assignment": Assignment,
}
_log = logging.getLogger("crowdpipe.client")


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What a device, and the orchestrator about it, said last; None where nothing was said."""

    name: str
    state: DeviceState | None = None
    telemetry: Telemetry | None = None
    residency: Residency | None = None
    assignment: Assignment | None = None
    contested: bool = False  # two agents use its name
    mismatch: str | None = None  # why it and the desk do not understand each other


def models(broker: str | BrokerUrl | None = None) -> list[ModelSummary]:
    """The models that can be run, by name."""
    with _Look(broker_url(broker), ("model",)) as look:
        found: list[ModelSummary] = list(look.read(ModelSummary, "model", "m").values())
    return sorted(found, key=lambda model: model.name)


def devices(broker: str | BrokerUrl | None = None) -> list[DeviceReport]:
    """Every device that was ever met and not forgotten, by name."""
    with _Look(broker_url(broker), tuple(_LEAVES)) as look:
        said = {leaf: look.read(kind, leaf, "d") for leaf, kind in _LEAVES.items()}
        desk = look.desk()
    contested = desk.contested if desk is not None else ()
    names = sorted({name for leaf in said.values() for name in leaf})
    return [
        DeviceReport(
            name=name,
            state=said["device_state"].get(name),
            telemetry=said["telemetry"].get(name),
            residency=said["residency"].get(name),
            assignment=said["assignment"].get(name),
            contested=name in contested,
            mismatch=_mismatch(said["device_state"].get(name), desk),
        )
        for name in names
    ]


def plan(
    name: str,
    broker: str | BrokerUrl | None = None,
    *,
    exact: bool = False,
    barrier: bool = False,
    transport: Transport = "auto",
    partitions: int | None = None,
    policy: str = "affinity",
    items: int | None = None,
    timeout_s: float = PLAN_LIMIT_S,
) -> Planned:
    """Who would serve which segments of model `name` now, and why; changes nothing.

    `items`: how many would be run; None plans for a batch of ordinary length.

    Raises what a run would fail with: `UnknownModel`, `NoDevice`, `FleetTooSmall`.
    """
    options = RunOptions(
        exact=exact, barrier=barrier, transport=transport, partitions=partitions, policy=policy
    )
    with Line(broker_url(broker)) as line:
        answer = line.ask(ev.PlanAsked(mint(), name, options, timeout_s, items))
    assert isinstance(answer, Planned), "a plan is answered by one"
    return answer


def _mismatch(state: DeviceState | None, desk: OrchestratorState | None) -> str | None:
    return mismatch(state.versions, desk.versions) if state and desk else None


class _Look:
    """Reads what is retained under some rows of the topic table."""

    def __init__(self, broker: BrokerUrl, rows: tuple[str, ...]) -> None:
        self._broker = broker
        self._topics = Topics()
        self._changed = threading.Condition()
        self._said: dict[str, bytes] = {}
        self._heard_at = 0.0
        self._up = False
        self._why_not = ""
        self._failure: CrowdpipeError | None = None
        filters = tuple(Subscription(self._topics.subscription(row)) for row in rows)
        # The second group is granted after the first's retained messages were sent.
        again = (Subscription(self._topics.orchestrator_state),)
        self._connection = Connection(broker, f"look-{mint()}", filters, again, self)

    def __enter__(self) -> _Look:
        self._connection.start()
        with self._changed:
            self._changed.wait_for(
                lambda: self._up or bool(self._why_not) or self._failure is not None,
                CONNECT_LIMIT_S,
            )
        if not self._up:
            self._connection.close(0.0)
            raise self._failure or unreachable(self._broker, self._why_not, CONNECT_LIMIT_S)
        self._settle()
        return self

    def _settle(self) -> None:
        """Wait until no message came for a moment: many retained ones come in several bunches."""
        deadline = time.monotonic() + CONNECT_LIMIT_S
        with self._changed:
            while True:
                now = time.monotonic()
                left = min(self._heard_at + QUIET_S, deadline) - now
                if left <= 0:
                    return
                self._changed.wait(left)

    def __exit__(self, *exc: object) -> None:
        self._connection.close(0.0)

    def read(self, kind: Any, row: str, variable: str) -> dict[str, Any]:
        """Records by name; what cannot be read is logged and left out."""
        found: dict[str, Any] = {}
        with self._changed:
            said = dict(self._said)
        for topic, payload in said.items():
            try:
                parsed = self._topics.parse(topic)
                if parsed.name == row:
                    found[parsed.variables[variable]] = decode(kind, payload)
            except CrowdpipeError as error:
                _log.warning("cannot read what is retained on %s: %s", topic, error)
        return found

    def desk(self) -> OrchestratorState | None:
        """What the orchestrator says of itself."""
        with self._changed:
            said = self._said.get(self._topics.orchestrator_state)
        try:
            state: OrchestratorState | None = decode(OrchestratorState, said) if said else None
        except CrowdpipeError as error:
            _log.warning("cannot read what the orchestrator says of itself: %s", error)
            return None
        return state

    # --- the connection's listener ------------------------------------------------------------

    def will(self, connection: str) -> Message | None:
        return None

    def connected(self, connection: str, reconnect: bool) -> None:
        with self._changed:
            self._up, self._heard_at = True, time.monotonic()
            self._changed.notify_all()

    def disconnected(self, reason: str) -> None:
        with self._changed:
            self._why_not = reason
            self._changed.notify_all()

    def received(self, message: InboundMessage) -> None:
        with self._changed:
            self._heard_at = time.monotonic()
            if message.payload:
                self._said[message.topic] = message.payload
            else:
                self._said.pop(message.topic, None)
            self._changed.notify_all()

    def refused(self, topic: str, error: CrowdpipeError) -> None:
        """Nothing is published here."""

    def ended(self, error: CrowdpipeError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()
