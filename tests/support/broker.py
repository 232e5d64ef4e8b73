"""A real Mosquitto with our own configuration, on a free loopback port.

`mosquitto` is shared by all tests of a run: use fresh names. `fresh_mosquitto` belongs to one
test, which may stop, kill and restart it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_config.credentials import Credentials
from broker_config.mosquitto import MosquittoBroker, find_mosquitto
from broker_config.url import BrokerUrl
from tests.support.mqtt_client import MqttClient
from wire.topics import ORCHESTRATOR, Role

_NUMBERS = itertools.count(1)


class BrokerUnderTest:
    """A running broker and the people it knows."""

    def __init__(self, home: Path, **options: Any) -> None:
        self.home = home
        self.credentials = Credentials(home)
        self.credentials.add(ORCHESTRATOR, ORCHESTRATOR)
        self.credentials.add("watcher", "watcher")
        self.credentials.add("client", "client")
        self.broker = MosquittoBroker(home, self.credentials, **options)

    def start(self) -> None:
        self.broker.start()

    def stop(self) -> None:
        self.broker.stop()

    @property
    def url(self) -> BrokerUrl:
        return self.broker.url

    @property
    def host(self) -> str:
        return self.url.host

    @property
    def port(self) -> int:
        return self.url.port

    @property
    def orchestrator(self) -> BrokerUrl:
        return self.url_for(ORCHESTRATOR)

    @property
    def client(self) -> BrokerUrl:
        return self.url_for("client")

    @property
    def watcher(self) -> BrokerUrl:
        return self.url_for("watcher")

    def url_for(self, name: str) -> BrokerUrl:
        return self.broker.url_for(name)

    def login(self, name: str, role: Role = "device") -> BrokerUrl:
        """The address for a user of that name and role, who is added if need be."""
        if self.credentials.get(name) is None:
            self.credentials.add(name, role)
            self.broker.reload()
        return self.url_for(name)

    def devices(self, count: int) -> list[BrokerUrl]:
        """Addresses of that many new devices, with one reload."""
        names = [fresh_name("phone") for _ in range(count)]
        for name in names:
            self.credentials.add(name, "device")
        self.broker.reload()
        return [self.url_for(name) for name in names]

    def connect(self, name: str, role: Role = "device") -> MqttClient:
        """A test's client as that user; use it in a `with`."""
        return MqttClient(self.login(name, role))


def fresh_name(prefix: str = "phone") -> str:
    """A name that no other test of this run uses."""
    return f"{prefix}-{next(_NUMBERS)}"


def need_mosquitto() -> None:
    if find_mosquitto() is None:
        pytest.fail("these tests need Mosquitto on the PATH: install the package 'mosquitto'")


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUnderTest]:
    need_mosquitto()
    under_test = BrokerUnderTest(tmp_path_factory.mktemp("mosquitto"))
    under_test.start()
    yield under_test
    under_test.stop()


@pytest.fixture
def fresh_mosquitto(tmp_path: Path) -> Iterator[BrokerUnderTest]:
    need_mosquitto()
    under_test = BrokerUnderTest(tmp_path / "mosquitto")
    under_test.start()
    yield under_test
    under_test.stop()
