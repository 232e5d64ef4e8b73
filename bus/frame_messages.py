"""What travels on data topics, as messages: a frame's parts, several whole frames, and credits for
parts that came.

A watcher sees in their properties what flows, without decoding anything: run, item and cut, and
which part of how many. Of several frames it is these three again for each run and cut, with the
items as in `0-6,9`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wire.outbox import Message
from wire.parts import Credit, Part, encode_bundle, encode_credit, encode_part
from wire.spans import Spans
from wire.topics import FRAME_CONTENT_TYPE, Topics

FRAME_EXPIRY_S = 300


class FrameMessages:
    """Those of party `us`."""

    def __init__(self, topics: Topics, us: str) -> None:
        self._topics = topics
        self._us = us

    def part(self, to: str, part: Part) -> Message:
        activation = part.transfer.activation
        properties = (
            ("run", activation.run),
            ("item", str(activation.item)),
            ("cut", str(activation.cut)),
            *((("part", f"{part.index + 1}/{part.count}"),) if part.count > 1 else ()),
        )
        return self._data(to, encode_part(part), properties)

    def together(self, to: str, parts: Sequence[Part]) -> Message:
        """One or several frames, each whole in its part."""
        if len(parts) == 1:
            return self.part(to, parts[0])
        return self._data(to, encode_bundle(parts), tuple(_named(parts)))

    def _data(self, to: str, payload: bytes, properties: tuple[tuple[str, str], ...]) -> Message:
        return Message(
            topic=self._topics.data(to, self._us),
            payload=payload,
            expiry_s=FRAME_EXPIRY_S,
            content_type=FRAME_CONTENT_TYPE,
            properties=properties,
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


def _named(parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    items: dict[tuple[str, int], Spans] = {}
    for part in parts:
        at = part.transfer.activation
        items.setdefault((at.run, at.cut), Spans()).add(at.item)
    for (run, cut), spans in items.items():
        yield "run", run
        yield (
            "item",
            ",".join(
                str(first) if first == last else f"{first}-{last}" for first, last in spans.ranges()
            ),
        )
        yield "cut", str(cut)
