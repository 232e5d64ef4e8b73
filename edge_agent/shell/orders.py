"""Whether what came on the desk's topics is an order of the desk, before the machine sees it.

With a key, only what is signed by it; without, everything: then the broker's access list alone says
who may order. What an order's numbers prove is the machine's affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.listener import InboundMessage
from bus.user_properties import user_property
from edge_agent.machine.records.events import OrderFault
from wire.signed_orders import SIGNATURE, read_signature, signed_bytes

if TYPE_CHECKING:
    from edge_agent.adapters.device.signatures import SignatureCheck


class Orders:
    def __init__(self, key: bytes | None) -> None:
        self._check = None if key is None else _check_of(key)

    def fault(self, message: InboundMessage) -> OrderFault | None:
        """Why it is none of the desk's; None if it is one."""
        if self._check is None:
            return None
        signature = read_signature(user_property(message.properties, SIGNATURE))
        if signature is None:
            return "unsigned"
        signed = signed_bytes(message.topic, message.payload)
        return None if self._check.signed(signature, signed) else "forged"


def _check_of(key: bytes) -> SignatureCheck:
    from edge_agent.adapters.device.signatures import SignatureCheck  # nobody else needs it

    return SignatureCheck(key)
