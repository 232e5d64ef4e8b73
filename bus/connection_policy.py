"""What differs between the connections of a device, of the desk's programs and of onlookers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionPolicy:
    """The defaults suit a program on the desk.

    Attempts to connect are `first_delay_s` apart, then twice that and so on up to
    `longest_delay_s`. The broker may send packets of `largest_packet_nbytes`. So many messages may
    be in flight, not yet acknowledged, and `ahead_nbytes` of frames be taken out of their store
    before it is their turn.

    `repeats`: what was said and not acknowledged when a connection was lost is said again on the
    next. Without it such messages are dropped, for a party that says everything about itself anew
    whenever it connects. Frames are never repeated from here: their courier has them.

    Who was let in before, and whose secret is then refused for `refused_s`, gives up; a broker that
    is only being started anew knows its users again by then. By default it never gives up.

    `one_identity` is what to do about another that connects as us.
    """

    first_delay_s: float = 0.25
    longest_delay_s: float = 5.0
    largest_packet_nbytes: int = 64 << 20
    max_in_flight: int = 32
    ahead_nbytes: int = 8 << 20
    repeats: bool = True
    refused_s: float = float("inf")
    one_identity: str = "run only one"


DESK = ConnectionPolicy()
