"""Asks the store for a blob that no store has: a refusal tells of the login, the answer's date of
the clock."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

from bus.trust import Trust
from edge_agent.adapters.store.download import StoreConnection
from edge_agent.adapters.store.store_address import parse_store
from edge_agent.diagnosis.facts import StoreAnswer
from wire.broker_url import BrokerUrl
from wire.errors import Malformed, StoreUnreachable, Untrusted

NO_BLOB = "0" * 64


def knock_at_store(base: str, peer_host: str, broker: BrokerUrl, limit_s: float) -> StoreAnswer:
    """`base` as the orchestrator says it."""
    try:
        address = parse_store(base, peer_host)
    except Malformed as error:
        return StoreAnswer(base or "(none)", None, str(error))
    connection = StoreConnection(broker.user, broker.secret, Trust(broker.authority), limit_s)
    try:
        response = connection.get(address, NO_BLOB, 0, "*/*")
        return StoreAnswer(
            address.shown, response.status, ahead_s=_ahead_s(response.getheader("Date"))
        )
    except (StoreUnreachable, Untrusted) as error:
        return StoreAnswer(address.shown, None, _cause(error, address.shown))
    finally:
        connection.close()


def _cause(error: StoreUnreachable | Untrusted, shown: str) -> str:
    """Its middle: where and what to do is said around it."""
    return str(error).removeprefix(f"cannot reach the store at {shown}: ").partition(";")[0]


def _ahead_s(date: str | None) -> float | None:
    """By the wall clock, which is what is asked about."""
    try:
        return None if date is None else time.time() - parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
