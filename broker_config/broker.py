"""What every broker offers whoever starts the system, whichever broker it is."""

from __future__ import annotations

from typing import Protocol

from broker_config.url import BrokerUrl


class Broker(Protocol):
    """A broker that can be started, told of new users, and stopped."""

    @property
    def name(self) -> str:
        """A word for the kind of broker: `mosquitto`, `embedded` or `external`."""

    @property
    def url(self) -> BrokerUrl:
        """Where the desk itself connects, without a user. Known after `start`."""

    @property
    def outside(self) -> BrokerUrl:
        """Where all others do: the same, unless the broker speaks TLS and the desk has a plain
        door of its own."""

    @property
    def packet_limit_nbytes(self) -> int | None:
        """The largest packet it takes, if we know; a broker may announce it in CONNACK too."""

    @property
    def running(self) -> bool:
        """Whether what we started still runs; true for a broker of somebody else's."""

    def url_for(self, user: str) -> BrokerUrl:
        """Where to connect as `user`, with the secret."""

    def start(self) -> None:
        """Return once it lets users in; raises `PortTaken` or `BrokerUnreachable`."""

    def reload(self) -> None:
        """Return once users added since are let in and those removed are not; a certificate that
        was replaced is read again."""

    def stop(self) -> None:
        """End it, if we started it. Stopping twice does nothing."""

    def describe(self) -> str:
        """One sentence for the screen: which broker runs where, and what it cannot do."""
