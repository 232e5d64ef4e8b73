"""Reads one user property of a message that came, and nothing else of its properties.

They are written for watchers; who needs one looks for it here. What cannot be read says nothing.
"""

from __future__ import annotations

_USER = 0x26
_FIXED = {0x01: 1, 0x02: 4, 0x23: 2}  # bytes of format, expiry and alias: MQTT 5, section 2.2.2.2
_COUNTED = (0x03, 0x08, 0x09)  # content type, response topic and correlation data: length first
_SUBSCRIPTION = 0x0B


def user_property(packed: bytes, name: str) -> str | None:
    """The first of that name in a PUBLISH's properties, which begin with their length."""
    wanted, at = name.encode(), _after_number(packed, 0)
    while at < len(packed):
        kind, at = packed[at], at + 1
        if kind == _USER:
            key, at = _text(packed, at)
            value, at = _text(packed, at)
            if key == wanted and at <= len(packed):
                return str(value, "utf-8", "replace")
        elif kind in _COUNTED:
            _, at = _text(packed, at)
        elif kind == _SUBSCRIPTION:
            at = _after_number(packed, at)
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            return None
    return None


def _text(packed: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + int.from_bytes(packed[at : at + 2], "big")
    return packed[at + 2 : end], end


def _after_number(packed: bytes, at: int) -> int:
    """Behind the variable byte integer that begins there."""
    while at < len(packed) and packed[at] > 127:
        at += 1
    return at + 1
