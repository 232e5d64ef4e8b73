"""Logs in as this device would, hears what the orchestrator last said of itself, and leaves.

The broker lets one client be called so: whoever is logged in by that name loses its connection.
Whether there is one is for the caller to know.
"""

from __future__ import annotations

import threading

from bus.connection import Connection
from bus.connection_policy import ConnectionPolicy
from bus.listener import InboundMessage, Subscription
from edge_agent import __version__
from edge_agent.adapters.device.settings import AgentSettings
from edge_agent.diagnosis.facts import BrokerLogin, DeskNews
from wire import WIRE_VERSION
from wire.errors import CrowdpipeError, Malformed, Refused
from wire.messages.state import OrchestratorState
from wire.outbox import Message
from wire.record import decode
from wire.topics import Topics

ONCE = ConnectionPolicy(first_delay_s=60.0, longest_delay_s=60.0, repeats=False)


class Visit:
    """What happens to the one connection. `news` is as it came. `over` is set when it is known
    whether we got in."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.up = False
        self.error: CrowdpipeError | None = None
        self.reason = ""
        self.news = b""

    def will(self, connection: str) -> Message | None:
        return None

    def connected(self, connection: str, reconnect: bool) -> None:
        self.up = True
        self.over.set()

    def disconnected(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.over.set()

    def received(self, message: InboundMessage) -> None:
        if not self.up:  # all that is retained has come by then
            self.news = message.payload

    def refused(self, topic: str, error: CrowdpipeError) -> None:
        self._fail(error)

    def ended(self, error: CrowdpipeError) -> None:
        self._fail(error)

    def _fail(self, error: CrowdpipeError) -> None:
        self.error = error
        self.over.set()


def log_in(settings: AgentSettings, limit_s: float) -> tuple[BrokerLogin, DeskNews]:
    """The news mean something if we got in."""
    topics, visit = Topics(settings.control_root, settings.data_root), Visit()
    connection = Connection(
        settings.broker,
        client_id=settings.name,
        first=(Subscription(topics.orchestrator_state),),
        then=(Subscription(topics.device(settings.name, "state")),),
        listener=visit,
        policy=ONCE,
    )
    connection.start()
    visit.over.wait(limit_s)
    peer_host = connection.peer_host
    connection.close(0.0)
    return _login(settings.name, visit, peer_host, limit_s), _news(settings.name, visit.news)


def _login(name: str, visit: Visit, peer_host: str, limit_s: float) -> BrokerLogin:
    if visit.up:
        return BrokerLogin(name, "in", peer_host=peer_host)
    if isinstance(visit.error, Refused):
        return BrokerLogin(name, "refused", str(visit.error))
    said = str(visit.error or visit.reason) or f"no answer within {limit_s:g} s"
    return BrokerLogin(name, "lost", said.rstrip("."))


def _news(name: str, payload: bytes) -> DeskNews:
    try:
        state: OrchestratorState = decode(OrchestratorState, payload)
    except Malformed:
        return DeskNews(None)
    return DeskNews(
        state.status,
        state.version,
        state.wire_version,
        __version__,
        WIRE_VERSION,
        name in state.contested,
        state.store_base,
    )
