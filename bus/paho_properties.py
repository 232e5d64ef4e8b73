"""MQTT 5 properties as paho reads and writes them, without what that costs each message.

Measured with paho 2.2.0: each set of properties makes its own tables of all that exist (20 us), is
emptied before it is read although it is new (10 us), and `unpack` cuts off what it has read byte by
byte, each cut a copy of the rest, payload included: some seventeen copies of a frame of 393 KB,
half of the time that receiving it takes. So the tables are shared, nothing is emptied that is
empty, `unpack` is given the properties alone, and what many messages say alike (a content type) is
read once. Reads nothing itself: paho does, as before. Where paho is made otherwise inside, it is
used as it comes.
"""

from __future__ import annotations

from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties, VariableByteIntegers

LENGTH_NBYTES = 4  # of a variable byte integer at most: MQTT 5, section 1.5.5
KNOWN_COUNT, KNOWN_NBYTES = 64, 40  # so many of at most so many bytes are remembered

_read_length: Any = VariableByteIntegers.decode
_tables: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no types here


class BriefProperties(Properties):
    """paho's, but for what the module's text says."""

    types: list[str] = _tables.types
    names: dict[str, int] = _tables.names
    properties: dict[int, Any] = _tables.properties
    _known: dict[tuple[int, bytes], dict[str, Any]] = {}  # noqa: RUF012 (all read alike)

    def __init__(self, packetType: int) -> None:  # noqa: N803 (as paho calls it)
        object.__setattr__(self, "packetType", packetType)

    def clear(self) -> None:
        if len(self.__dict__) > 1:  # the packet's type is always there
            super().clear()  # type: ignore[no-untyped-call]  # as above

    def unpack(self, buffer: Any) -> tuple[BriefProperties, int]:
        self.clear()
        length, taken = _read_length(buffer[:LENGTH_NBYTES])
        if not length:
            return self, taken
        told = bytes(buffer[: taken + length])
        known = self._known.get((self.packetType, told))
        if known is None:
            super().unpack(told)  # type: ignore[no-untyped-call]  # as above
            self._remember(told)
        else:
            self.__dict__.update(known)
        return self, taken + length

    def _remember(self, told: bytes) -> None:
        if len(told) > KNOWN_NBYTES:
            return
        if len(self._known) >= KNOWN_COUNT:
            self._known.clear()
        self._known[self.packetType, told] = dict(self.__dict__)


def spare_copies() -> bool:
    """Have paho read with these in this process, once; False if it has no place for it."""
    try:
        from paho.mqtt import _packet as packet
    except ImportError:
        return False
    if getattr(packet, "Properties", None) is not Properties:
        return False
    module: Any = packet
    module.Properties = BriefProperties  # looked up anew for each message
    return True
