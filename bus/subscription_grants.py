"""A connection's subscriptions, asked for group by group: each once the last was granted.

The answer to a later group comes after everything retained under an earlier one.
"""

from __future__ import annotations

import paho.mqtt.client as paho
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from bus.listener import Subscription
from wire.errors import Refused


class Grants:
    def __init__(self, client: paho.Client, *groups: tuple[Subscription, ...]) -> None:
        self._client = client
        self._groups = tuple(group for group in groups if group)
        self._asked: dict[int, int] = {}

    def restart(self) -> None:
        """A new connection: no answer to an earlier question comes any more."""
        self._asked.clear()

    def ask(self, number: int = 0) -> bool:
        """For the group of this number; False if there is none left."""
        if number == len(self._groups):
            return False
        _, mid = self._client.subscribe(
            [
                (each.topic, SubscribeOptions(qos=1, noLocal=not each.echoes))
                for each in self._groups[number]
            ]
        )
        if mid is not None:
            self._asked[mid] = number
        return True

    def answered(self, mid: int, codes: list[ReasonCode]) -> bool:
        """Whether the broker granted all there is; asks for what is left. Raises `Refused`."""
        number = self._asked.pop(mid, None)
        if number is None:
            return False
        for each, code in zip(self._groups[number], codes, strict=False):
            if code.is_failure:
                raise Refused(f"the broker does not let us read {each.topic}: {code}")
        return not self.ask(number + 1)
