"""Goes the way to the desk step by step, for `doctor`: no step is taken behind one that failed."""

from __future__ import annotations

from collections.abc import Callable

from edge_agent.adapters.broker.login import log_in
from edge_agent.adapters.broker.reach import addresses_of, knock_at_port
from edge_agent.adapters.device.settings import AgentSettings
from edge_agent.adapters.store.store_knock import knock_at_store
from edge_agent.diagnosis.facts import (
    BrokerLogin,
    ClockOffset,
    DeskNews,
    HostAddresses,
    PortKnocks,
    ServerCertificate,
    StoreAnswer,
)
from edge_agent.shell.inquiry import Inquiry

NAME_LIMIT_S, PORT_LIMIT_S, TLS_LIMIT_S, LOGIN_LIMIT_S, STORE_LIMIT_S = 4.0, 4.5, 3.0, 4.0, 3.0
SPARE_S = 0.5  # what is told to end in time ends a little before it is given up


class WayToDesk:
    """`facts` are those found so far. `occupied`: why this name may be logged in already, and is
    to stay so; empty if it is not."""

    def __init__(self, settings: AgentSettings, occupied: str) -> None:
        self._settings = settings
        self._broker = settings.broker
        self._occupied = occupied
        self.facts: dict[str, object] = {}

    def go(self) -> dict[str, object]:
        host = self._find("host", NAME_LIMIT_S, lambda: addresses_of(self._broker))
        if isinstance(host, HostAddresses) and host.addresses and self._is_open(host):
            self._enter()
        return self.facts

    def _find(self, name: str, limit_s: float, ask: Callable[[], object]) -> object:
        self.facts[name] = fact = Inquiry(ask, limit_s).answer()
        return fact

    def _is_open(self, host: HostAddresses) -> bool:
        knocks = self._find(
            "port", PORT_LIMIT_S, lambda: knock_at_port(self._broker, host.addresses)
        )
        if not isinstance(knocks, PortKnocks) or all(each.fault for each in knocks.knocks):
            return False
        return not self._broker.tls or self._is_believed()

    def _is_believed(self) -> bool:
        from edge_agent.adapters.broker.certificate import certificate_of

        fact = self._find("certificate", TLS_LIMIT_S, lambda: certificate_of(self._broker))
        return isinstance(fact, ServerCertificate) and not fact.fault

    def _enter(self) -> None:
        if self._occupied:
            self.facts["login"] = BrokerLogin(self._settings.name, "spared", self._occupied)
            return
        found = Inquiry(
            lambda: log_in(self._settings, LOGIN_LIMIT_S - SPARE_S), LOGIN_LIMIT_S
        ).answer()
        if not isinstance(found, tuple):
            self.facts["login"] = found
            return
        login, news = found
        self.facts["login"] = login
        if login.outcome == "in":
            self.facts["desk"] = news
            self._look_for_store(login, news)

    def _look_for_store(self, login: BrokerLogin, news: DeskNews) -> None:
        """Also of a desk that said farewell: what it said of its store may still be so."""
        if not news.store_base:
            return
        answer = self._find(
            "store",
            STORE_LIMIT_S,
            lambda: knock_at_store(
                news.store_base, login.peer_host, self._broker, STORE_LIMIT_S - SPARE_S
            ),
        )
        if isinstance(answer, StoreAnswer) and answer.ahead_s is not None:
            self.facts["clock"] = ClockOffset(answer.ahead_s, self._broker.tls)
