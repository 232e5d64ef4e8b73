"""How many connections an address may have, so that nobody takes them all.

An address that has shown a valid secret may have more than a stranger, and some of all connections
are kept for such addresses. Counts only: closing is the protocol's affair.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

MOST = 512  # of all addresses together
RESERVE = 128  # of those, for addresses that have shown a valid secret
STRANGERS_EACH, KNOWN_EACH = 32, 256
REMEMBERED = 4096  # addresses that have


class ConnectionLimits:
    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._total = 0
        self._known: OrderedDict[str, None] = OrderedDict()

    def admit(self, address: str) -> bool:
        """Whether one more may come from there; it then counts until it has `left`."""
        known = address in self._known
        most, each = (MOST, KNOWN_EACH) if known else (MOST - RESERVE, STRANGERS_EACH)
        if self._total >= most or self._open[address] >= each:
            return False
        self._open[address] += 1
        self._total += 1
        return True

    def left(self, address: str) -> None:
        """One that was admitted is over."""
        self._total -= 1
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def know(self, address: str) -> None:
        """It has shown a valid secret."""
        self._known[address] = None
        self._known.move_to_end(address)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
