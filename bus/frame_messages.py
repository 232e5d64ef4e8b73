"""What travels on data topics, as messages: a frame's parts, and credits for parts that came.

A watcher sees in their properties what flows, without decoding anything.
"""

from __future__ import annotations

from wire.outbox import Message
from wire.parts import Credit, Part, encode_credit, encode_part
from wire.topics import FRAME_CONTENT_TYPE, Topics

FRAME_EXPIRY_S = 300


class FrameMessages:
    """Those of party `us`."""

    def __init__(self, topics: Topics, us: str) -> None:
        self._topics = topics
        self._us = us

    def part(self, to: str, part: Part) -> Message:
        activation = part.transfer.activation
        return Message(
            topic=self._topics.data(to, self._us),
            payload=encode_part(part),
            expiry_s=FRAME_EXPIRY_S,
            content_type=FRAME_CONTENT_TYPE,
            properties=(
                ("run", activation.run),
                ("item", str(activation.item)),
                ("cut", str(activation.cut)),
                *((("part", f"{part.index + 1}/{part.count}"),) if part.count > 1 else ()),
            ),
            control=False,
        )

    def credit(self, to: str, part: Part) -> Message:
        """For a part that came from `to`; it overtakes frames."""
        credit = Credit(part.transfer, part.index, part.count)
        return Message(
            topic=self._topics.data(to, self._us),
            payload=encode_credit(credit),
            expiry_s=FRAME_EXPIRY_S,
            content_type=FRAME_CONTENT_TYPE,
        )
