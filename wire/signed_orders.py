"""How an order of the desk is signed: which bytes, and how signature and key are written.

An order is what a desk says to devices: assignments, commands, and its own state. What is signed
(Ed25519, RFC 8032) is a prefix that belongs to this use alone, the topic, in which the device's
name stands, and the payload as published, in which the numbers stand that prove it new. The
signature travels beside the payload as a user property, which a retained message keeps. Neither
signs nor verifies: that needs a key, or what a device has for it.
"""

from __future__ import annotations

import binascii

from wire.errors import InvalidSettings

SIGNATURE = "ed25519"  # the user property's name
KEY_NBYTES, SIGNATURE_NBYTES = 32, 64
_PREFIX = b"crowdpipe order 1\0"


def signed_bytes(topic: str, payload: bytes) -> bytes:
    """No topic holds a NUL, so that no two orders have the same bytes."""
    return b"%b%b\0%b" % (_PREFIX, topic.encode(), payload)


def write_bytes(data: bytes) -> str:
    """A key or a signature as text."""
    return binascii.b2a_base64(data, newline=False).decode()


def read_signature(text: str | None) -> bytes | None:
    """None if it cannot be one."""
    data = _read(text or "")
    return data if data is not None and len(data) == SIGNATURE_NBYTES else None


def read_key(text: str) -> bytes:
    """A desk's public key as it is typed. Raises `InvalidSettings`."""
    data = _read(text.strip())
    if data is None or len(data) != KEY_NBYTES:
        raise InvalidSettings(
            "desk_key is not the key of a desk: copy the whole text behind --desk-key that "
            "`crowdpipe device add` prints, 44 characters"
        )
    return data


def _read(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError:  # what `binascii.Error` is too
        return None
