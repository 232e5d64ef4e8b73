"""Which broker to use: the one that is named, else Mosquitto, else the embedded one."""

from __future__ import annotations

from pathlib import Path

from broker_config.broker import Broker
from broker_config.credentials import Credentials
from broker_config.embedded import EmbeddedBroker, embedded_is_there
from broker_config.external import ExternalBroker
from broker_config.mosquitto import MosquittoBroker, find_mosquitto
from broker_config.url import parse_url
from wire.errors import BrokerUnreachable
from wire.topics import Topics


def choose_broker(
    url: str | None,
    home: Path,
    credentials: Credentials,
    host: str = "127.0.0.1",
    port: int = 0,
    topics: Topics | None = None,
    certificate: Path | None = None,
) -> Broker:
    """The broker to use, not started yet; its `describe()` says which one it is.

    With `certificate`, a broker that we start speaks TLS. Raises `InvalidUrl`, or
    `BrokerUnreachable` if there is none at all, or none that speaks it.
    """
    if url is not None:
        return ExternalBroker(parse_url(url))
    program = find_mosquitto()
    if program is not None:
        return MosquittoBroker(
            home, credentials, host, port, topics=topics, program=program, certificate=certificate
        )
    if embedded_is_there() and certificate is not None:
        raise BrokerUnreachable(
            "the embedded broker does not speak TLS, without which nothing is opened to a network: "
            "install Mosquitto 2 (if it is: put its folder, often /usr/sbin, on the PATH)"
        )
    if embedded_is_there():
        return EmbeddedBroker(home, credentials, host, port)
    raise BrokerUnreachable(
        "there is no broker: install Mosquitto 2 (if it is: put its folder, often /usr/sbin, on "
        "the PATH), or `pip install iotcore` for the embedded one, or name a running one with "
        "--broker mqtt://host"
    )
