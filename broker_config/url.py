"""Broker addresses: what `wire.broker_url` says, under the name that this program's parts use."""

from __future__ import annotations

from wire.broker_url import DEFAULT_PORTS, EXAMPLE, NO_BROKER_THERE, BrokerUrl, parse_url

__all__ = ["DEFAULT_PORTS", "EXAMPLE", "NO_BROKER_THERE", "BrokerUrl", "parse_url"]
