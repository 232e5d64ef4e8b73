"""Verdicts on the way to the desk, in the order in which it is gone, from name to store."""

from __future__ import annotations

from edge_agent.diagnosis.facts import (
    BrokerLogin,
    ClockOffset,
    DeskNews,
    HostAddresses,
    PortKnock,
    PortKnocks,
    ServerCertificate,
    StoreAnswer,
)
from edge_agent.diagnosis.verdict import Verdict, advice, fault, ok

FEW_DAYS = 14
CLOCK_SLACK_S = 60.0
DAY_S = 86_400.0
NO_SUCH_BLOB = 404  # our question names a blob that no store has
REFUSALS = (401, 403)
PORT_FAULTS = {
    "nobody": (
        "nothing listens at {}",
        "Start 'crowdpipe up --host ADDRESS' on the desk, and compare the port.",
    ),
    "silent": (
        "nothing answers from {}",
        "Is it the desk's address, in the same network? Guest networks keep devices apart, and "
        "a firewall on the desk must let the port through.",
    ),
    "no_route": (
        "there is no way to {}",
        "Is this device in a network, and in the desk's? Look at Wi-Fi.",
    ),
    "other": ("cannot connect to {}", "Compare host and port with what the desk printed."),
}


def judge_host(fact: HostAddresses) -> Verdict:
    if not fact.addresses:
        return fault(
            f"The broker's name {fact.host} has no address: {fact.fault}.",
            "Is it spelt right, and this device in a network? An address works without names.",
        )
    if fact.addresses == (fact.host,):
        return ok(f"{fact.host} is an address, which needs no name.")
    return ok(f"{fact.host} is {', '.join(fact.addresses)}.")


def judge_port(fact: PortKnocks) -> Verdict:
    closed = [knock for knock in fact.knocks if knock.fault]
    if not closed:
        return ok(f"Something listens at {fact.shown}.")
    what, do = _of_port(closed[0], fact.shown)
    if len(closed) == len(fact.knocks):
        return fault(what, do)
    opened = next(knock.address for knock in fact.knocks if not knock.fault)
    return advice(
        f"Something listens at {opened}, nothing at {closed[0].address}, which may be tried first.",
        f"Give the broker's address as {opened}.",
    )


def _of_port(knock: PortKnock, shown: str) -> tuple[str, str]:
    what, do = PORT_FAULTS[knock.fault]
    said = f": {knock.said}" if knock.said and knock.fault == "other" else ""
    sentence = what.format(f"{shown} ({knock.address})" if knock.address not in shown else shown)
    return f"{sentence[0].upper()}{sentence[1:]}{said}.", do


def judge_certificate(fact: ServerCertificate) -> Verdict:
    if fact.fault == "no_tls":
        return fault(
            "What listens there does not speak TLS.",
            "If the broker is a plain one, begin its address with mqtt://; else compare the port.",
        )
    if fact.fault == "untrusted":
        return fault(
            f"The broker's certificate is not believed: {fact.said}.",
            "Compare the address with the line that `crowdpipe device add` prints on the desk.",
        )
    if fact.fault:
        return fault(f"TLS fails: {fact.said}.", "Compare host and port.")
    if fact.days_left is not None and fact.days_left < FEW_DAYS:
        return advice(
            f"The broker's certificate ends in {fact.days_left:.0f} days.", "Renew it on the desk."
        )
    return ok("The broker's certificate is believed.")


def judge_login(fact: BrokerLogin) -> Verdict:
    if fact.outcome == "spared":
        return ok(f"Not tried: {fact.said}, and a second login as {fact.name} would end it.")
    if fact.outcome == "refused":
        return fault(
            f"The broker refuses {fact.name}, or its secret.",
            f"Type 'crowdpipe device add {fact.name}' on the desk, and the line it prints here.",
        )
    if fact.outcome == "lost":
        return fault(
            f"The broker does not let us in: {fact.said}.",
            "Compare host and port; a broker with TLS has an address that begins with mqtts://.",
        )
    return ok(f"The broker lets {fact.name} in.")


def judge_desk(fact: DeskNews) -> Verdict:
    if fact.status != "online":
        last = "said its farewell" if fact.status else "never said a word"
        return fault(f"The orchestrator {last}.", "Start 'crowdpipe up' on the desk.")
    if fact.contested:
        return fault(
            "Two agents use this device's name.", "Give each its own: 'crowdpipe device add NAME'."
        )
    if fact.wire_version != fact.own_wire_version:
        return fault(
            f"The desk has crowdpipe {fact.version}, this agent is {fact.own_version}, and they "
            "do not understand each other.",
            "Install the same version on both.",
        )
    if fact.version != fact.own_version:
        return advice(
            f"The desk has crowdpipe {fact.version}, this agent is {fact.own_version}.",
            "They understand each other; install the same version when you can.",
        )
    return ok(f"The orchestrator is there, crowdpipe {fact.version} as here.")


def judge_store(fact: StoreAnswer) -> Verdict:
    if fact.status is None:
        return fault(
            f"The model store {fact.shown} does not answer: {fact.said}.",
            "Is 'crowdpipe up' running, and its second port open in the desk's firewall?",
        )
    if fact.status in REFUSALS:
        return fault(
            f"The model store {fact.shown} refuses this device's secret.",
            "Restart 'crowdpipe up' on the desk; if it stays, type 'crowdpipe device add' anew.",
        )
    if fact.status != NO_SUCH_BLOB:
        return fault(
            f"What answers at {fact.shown} says HTTP {fact.status}, as no store of ours does.",
            "Does another program have the store's port? The desk's log says more.",
        )
    return ok(f"The model store {fact.shown} knows this device.")


def judge_clock(fact: ClockOffset) -> Verdict | None:
    if fact.ahead_s is None:
        return None
    off_s = abs(fact.ahead_s)
    if off_s <= CLOCK_SLACK_S:
        return ok("The clock agrees with the desk's.")
    shown = f"The clock is {_span(off_s)} {'ahead of' if fact.ahead_s > 0 else 'behind'} the desk's"
    do = "Have the system set date and time from the network."
    if fact.matters and off_s > DAY_S:
        return fault(f"{shown}, which certificates do not forgive.", do)
    return advice(f"{shown}; logs will not match.", do)


def _span(seconds: float) -> str:
    for unit, size_s in (("days", DAY_S), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size_s:
            return f"{seconds / size_s:.0f} {unit}"
    return f"{seconds:.0f} seconds"
