"""Why a broker was not reached, as a person is told."""

from __future__ import annotations

from bus.tls_probe import speaks_tls
from bus.trust import NO_TLS_THERE, ONLY_TLS_THERE
from wire.broker_url import NO_BROKER_THERE, BrokerUrl
from wire.errors import BrokerUnreachable


def unreachable(broker: BrokerUrl, why_not: str, limit_s: float) -> BrokerUnreachable:
    """The error of a broker that was not reached, from what the connection says about it; one that
    closed a plain connection is asked whether it speaks TLS."""
    if not why_not:  # something took the connection and is silent, or nobody took it
        return BrokerUnreachable(
            f"there is no broker at {broker.shown} that answers within {limit_s:g} s; check host "
            "and port, start one with `crowdpipe up`, or name another"
        )
    if why_not == NO_BROKER_THERE:
        return BrokerUnreachable(f"there is no broker at {broker.shown}: {why_not}")
    if NO_TLS_THERE in why_not or ONLY_TLS_THERE in why_not:
        return BrokerUnreachable(why_not)
    if "cannot reach" not in why_not:  # it was there, and closed the door
        if not broker.tls and speaks_tls(broker.host, broker.port):
            return BrokerUnreachable(f"there is no broker at {broker.shown}: {ONLY_TLS_THERE}")
        return BrokerUnreachable(
            f"the broker at {broker.shown} closed the connection at once ({why_not}): "
            "check user and secret in its address"
        )
    return BrokerUnreachable(f"{why_not}; start one with `crowdpipe up`, or name another")
