"""A broker that somebody else runs: we knock, and use it as its address says.

Its users and access list are its operator's: everyone whom we start connects with the login in
the address. `python -m broker_config` writes and runs our own configuration elsewhere.
"""

from __future__ import annotations

from broker_config.url import BrokerUrl
from bus.broker_probe import knock


class ExternalBroker:
    """The broker at `url`."""

    name = "external"

    def __init__(self, url: BrokerUrl) -> None:
        self._url = url

    @property
    def url(self) -> BrokerUrl:
        return self._url

    @property
    def outside(self) -> BrokerUrl:
        return self._url

    @property
    def packet_limit_nbytes(self) -> int | None:
        """Unknown before connecting: CONNACK announces it."""
        return None

    @property
    def running(self) -> bool:
        """As far as we know: whether it answers, whoever connects finds out."""
        return True

    def url_for(self, user: str) -> BrokerUrl:
        return self._url

    def describe(self) -> str:
        return f"the broker at {self._url.shown}, which somebody else runs"

    def start(self) -> None:
        knock(self._url)

    def reload(self) -> None:
        """Its users are not ours to change."""

    def stop(self) -> None:
        """It was there before us and stays."""
